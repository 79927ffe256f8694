"""``fs/v1``: the files of an agent's scope. The table of its nine tools, and what they have in common.

Words, defaults and the read-before-write rule follow the local file tools that task chains know. Everything
is opened beneath a folder of the scope (``router.beneath``), by descriptor, and bounded.
"""

from collections.abc import Mapping

from reconciler.builtin import fslisting, fsreading, fssearch, fswriting
from reconciler.builtin.asking import Answerer

TOOLS: Mapping[str, Answerer] = {
    "fs_read_file": fsreading.read_file,
    "fs_read_file_range": fsreading.read_file,
    "fs_count_stats": fsreading.count_stats,
    "fs_stat_file": fslisting.stat_file,
    "fs_list_dir": fslisting.list_dir,
    "fs_find_files": fslisting.find_files,
    "fs_grep": fssearch.grep,
    "fs_write_file": fswriting.write_file,
    "fs_sed": fswriting.sed,
}
