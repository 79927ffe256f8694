"""An engine of ocr/v1 whose answers are told by the file's name: for the sandbox."""

import json
from pathlib import Path

from handler_connector import Failure, serve

ANSWER = json.loads(Path(__file__).with_name("answer.json").read_text())


def ocr_extract(args, call):
    name = args["path"].name
    if name.startswith("zip"):
        raise Failure("unsupported_format", "the vendor's words: acme cannot read archives")
    if name.startswith("down"):
        raise Failure("unavailable", "the vendor's words: acme quota exceeded for key sk-canary")
    if name.startswith("bytes-"):
        count = int(name.removeprefix("bytes-").removesuffix(".pdf")) // 1000
        pages = [{"text": f"{number:07}\n" * 125} for number in range(count)]
        return {"pages": [*pages, {"text": "END"}]}
    return ANSWER


serve({"ocr_extract": ocr_extract})
