"""Sprig's functions, all in one table, and what is left out of it.

Left out: what reads the environment or the network (``env``, ``expandenv``, ``getHostByName``), what draws by
chance or makes keys (``rand…``, ``shuffle``, ``uuidv4``, ``gen…``, ``encryptAES``, ``bcrypt`` and the like),
and comparing versions (``semver``, ``semverCompare``). ``now`` and ``ago`` belong to the executor, which may
have a moment for them.
"""

from collections.abc import Mapping

from reconciler.templates import golang, sprigcodes, sprigdata, sprigmath, sprigtext, sprigtimes

FUNCTIONS: Mapping[str, golang.Entry] = {
    **sprigtext.FUNCTIONS,
    **sprigmath.FUNCTIONS,
    **sprigdata.FUNCTIONS,
    **sprigcodes.FUNCTIONS,
    **sprigtimes.FUNCTIONS,
}
since = sprigtimes.since
