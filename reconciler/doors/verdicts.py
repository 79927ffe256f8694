"""What a reason means for whoever waits: it may pass by itself, or a person must act.

The one table behind the exit codes of ``check`` and the end of a ``wait``; ``docs/scripting.md`` shows it. A
reason stands here once something that is not ready may carry it.
"""

READY, FAULT, LATER, PERSON, UNKNOWN = 0, 1, 10, 11, 12  # exit codes of `handler check`

# A start, a machine, a network or a source that may come back: the controller goes on trying.
PASSING = frozenset(
    (
        "Starting", "CrashLoop", "StartTimeout", "OutOfMemory", "CapacityWait", "Draining", "Flapping",
        "SourceUnavailable", "SourceBusy", "SecretTimeout", "ReconcileError", "WatchDegraded",
        "Unreachable", "NotAnswering",
    )
)  # fmt: skip

# What is told of something that is ready, or beside that: these never say why it is not.
ASIDE = frozenset(
    (
        "Admitted", "ReconcileSuccess", "Proven", "Stale", "Idle", "Running", "Playing", "Recording",
        "Shadowed",
        "ProcessVanished",
        "CodeChanged", "EnvironmentChanged", "SocketMissing", "StatusEdited", "StateEdited", "HarnessEdited",
        "DriftCorrected", "Reachable", "Answering",
    )
)  # fmt: skip

# Nothing changes until somebody changes a file, the machine, or agrees.
LASTING = frozenset(
    (
        "SchemaInvalid", "UnknownField", "UnresolvedReference", "MissingRequirement", "FrozenModified",
        "EgressDenied", "SecretUnresolved", "SecretEcho", "Suspended", "DuplicateName", "MergeConflict",
        "NotBuilt", "WaitsFor", "PruneBlocked", "AwaitingApply", "RolledBack", "SourceRefused",
        "SandboxUnavailable", "UnsupportedFact", "Withheld", "ModelMissing", "ModelSubstituted",
        "ProfileMutated", "Uncontained", "ProbeOff", "LastGoodRetained",
    )
)  # fmt: skip


def code(reason: str) -> int:
    """The exit code of ``handler check`` for something that is not ready for this reason."""
    if reason in LASTING:
        return PERSON
    return FAULT if reason == "InternalError" else LATER


def conditions(document: dict[str, object]) -> dict[str, dict[str, str]]:
    """The conditions of a status file by type; one that is absent is Unknown, and not here."""
    found = document.get("conditions")
    rows = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return {str(one.get("type")): {key: str(one[key]) for key in one} for one in rows}


def is_newest(document: dict[str, object]) -> bool:
    """The form that is in force is the newest: what is said of it holds of what was saved (kstatus)."""
    return document.get("generation") == document.get("observedGeneration")
