"""What each mode of the hostile connector does, and what it must end as: the table of tests and docs."""

ANSWERED = "its answer is served, and nothing else that it sent"
UNAVAILABLE = "the call is `unavailable`"
ANEW = "the call is `unavailable` or answered, and the next call finds it started anew where it was ended"
REFUSED = "every attempt is refused"

ENDS: dict[str, tuple[str, str]] = {
    "good": ("answers as it should", ANSWERED),
    "size": ("reads its input file", ANSWERED),
    "run": (
        "puts links, devices, folders, sparse files in place of its output",
        "the call fails; no file is made",
    ),
    "garbage": ("sends bytes that are no JSON, and JSON that is no message, before its answer", ANSWERED),
    "much-garbage": ("sends a thousand such lines", ANEW),
    "endless-line": ("sends a line of 100 MB", ANEW),
    "drip": ("sends its answer byte by byte, for longer than the call has", UNAVAILABLE),
    "ids": ("answers calls that nobody made, under ids of every type, and its own twice", ANSWERED),
    "flood-late": ("answers, and goes on answering for seconds", ANEW),
    "flood-notes": ("floods with log messages", ANEW),
    "flood-asks": ("floods with requests of its own", ANEW),
    "flood-progress": ("reports progress 20,000 times", "answered, or `unavailable` when its time is over"),
    "asks": ("asks for sampling, roots and elicitation, says that its tools changed", ANSWERED),
    "vendor-field": ("answers with a field that the interface does not have", UNAVAILABLE),
    "wrong-type": ("answers with a list for a text", UNAVAILABLE),
    "nan": ("answers with a number that JSON does not have", UNAVAILABLE),
    "bare": (
        "answers with neither result nor error, with both, with keys twice, with depth 5,000",
        UNAVAILABLE,
    ),
    "separator": ("answers with every character that some take for the end of a line", ANSWERED),
    "huge": ("answers with 20 MB where the interface allows less", UNAVAILABLE),
    "large": ("answers with as much as it is told", "served up to the interface's bound, whole"),
    "many-lines": ("fails with three million lines of text", UNAVAILABLE),
    "raise": ("fails with a stack trace", "the call is `unavailable`, and the trace reaches no agent"),
    "tool-error": (
        "fails with its vendor's words",
        "the call is `unavailable`, and the words reach no agent",
    ),
    "code": (
        "fails with codes of its own, and with the router's",
        "listed codes pass, others are `unavailable`",
    ),
    "hang": ("never answers", UNAVAILABLE),
    "freeze": ("stops itself", UNAVAILABLE),
    "exit": ("ends in the middle of a call", ANEW),
    "last-words": ("answers, and ends", ANSWERED),
    "close": ("closes its connection in the middle of a call", UNAVAILABLE),
    "grandchildren": ("leaves processes in sessions of their own", "answered, and they end with it"),
    "bomb": ("forks until it cannot", "bounded, and all end with it"),
    "hog": ("takes 4 GiB of memory", "ended at its bound: `OutOfMemory`"),
    "fill": ("fills scratch space, outbox and shared memory", "bounded each, in memory of its own"),
    "stdout": (
        "prints 20 MB, with escapes for terminals",
        "answered; the log stays 1 MiB, without the escapes",
    ),
    "reach": ("tries 30 ways out", REFUSED),
}
