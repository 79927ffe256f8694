"""What failed while other tests ran beside it, once more and alone: `make test` ends with it.

Thousands of tests with real processes share a machine of two cores. A fault that only neighbours cause is one
of a test, told and to be mended, but no reason to refuse a change (docs/decisions/0107).
"""

import json
import subprocess
import sys
from pathlib import Path

_RECORD = Path(".pytest_cache/v/cache/lastfailed")
_HANDFUL = 5


def main() -> int:
    """0 when each passes alone; 1 when one fails again, or too many failed, or none is recorded."""
    failed = sorted(json.loads(_RECORD.read_bytes())) if _RECORD.exists() else []
    if not 0 < len(failed) <= _HANDFUL:
        return 1
    print(f"\n{len(failed)} failed beside others. Each once more, alone:", flush=True)
    again = [one for one in failed if not _passes(one)]
    for one in failed:
        print(f"{'FAILED AGAIN' if one in again else 'FLAKY: passed alone'}  {one}")
    return 1 if again else 0


def _passes(test: str) -> bool:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", test], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
