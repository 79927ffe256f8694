"""Examples for ``handler explain policy.rule`` and its like: parts of files as a person would write them.

A whole kind's example is all of its parts; a test admits each.
"""

_POLICY = {
    "class": """\
[[class]]                        # from the lowest; the first is that of unlabelled data
name = "public"

[[class]]
name = "private"
localOnly = true                 # never leaves this machine
""",
    "label": """\
[[label]]
paths = ["clients/**"]
class = "private"
""",
    "rule": """\
[[rule]]
id = "reading"
effect = "allow"
interfaces = ["ocr/v1"]
origins = ["https://api.mistral.ai:443"]
maxClass = "public"
maxBytes = 20_000_000
cost = { perCall = "EUR 0.50", perDay = "EUR 5.00" }

[[rule]]
id = "ask-first"
effect = "ask"
purposes = ["send-email"]
ask = { timeoutSeconds = 600 }
""",
}
_APPROVAL = {
    "rules": """\
[[rules]]                        # the first that fits decides
tools = "fs"
tool = "read_file"
action = "allow"

[[rules]]
tools = "shell"
action = "deny"
when = [{ key = "command", op = "command_blacklist", value = "rm, dd" }]
""",
}
_HEADS = {
    "policy": 'apiVersion = "handler.egress-policy/v1"\nremote = "deny"\n',
    "approval": 'apiVersion = "handler.approval-policy/v1"\ndefaultAction = "approve"\n',
}
_PARTS = {"policy": _POLICY, "approval": _APPROVAL}
_NEW = ("binding", "agent", "project", "connector", "interface", "chain", "profile")


def of(path: list[str]) -> str:
    """The example for a key, by its path; "" where there is none."""
    kind, key = path[0], path[1] if len(path) > 1 else ""
    parts = _PARTS.get(kind)
    if parts is not None and (key in parts or not key):
        return parts[key] if key else "\n".join((_HEADS[kind], *parts.values()))
    return ""


def written(path: list[str]) -> str:
    """Which command writes a whole file of a kind; "" for a key, and where none does."""
    kind = path[0]
    if len(path) > 1 or kind not in (*_NEW, *_PARTS):
        return ""
    words = {"policy": "policy egress", "approval": "policy approval"}.get(kind, f"{kind} NAME")
    return f"'handler new {words}' writes one with comments."
