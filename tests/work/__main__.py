"""Print the counts of this version of Python as JSON; `make counts` writes them to `tests/work/counts.json`.

PYTHONHASHSEED=0 python -m tests.work
"""

import json

from tests.work.counting import measured

if __name__ == "__main__":
    print(json.dumps(measured(), indent=2))
