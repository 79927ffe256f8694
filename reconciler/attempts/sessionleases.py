"""Who may speak in a provider's session: one row a session, and an epoch that fences off whoever was before.

Runs inside a transaction of its caller's.
"""

from reconciler.attempts.holdings import NoRoomError, SessionLease
from reconciler.attempts.store import Store


def open_session(store: Store, wanted: SessionLease, now: float) -> SessionLease:
    """Open a provider's session or take it over: its epoch is one higher, and older ones are fenced off.

    Raises NoRoomError while another owner's lease goes on.
    """
    found = store.rows("SELECT * FROM session_lease WHERE id = :id", {"id": wanted.id})
    epoch = 1
    if found:
        row = found[0]
        if row["owner"] != wanted.owner and row["expires_at"] > now:
            raise NoRoomError(f"session {wanted.id}")
        epoch = int(row["epoch"]) + 1
    store.change(
        "INSERT INTO session_lease (id, binding, epoch, owner, expires_at)"
        " VALUES (:id, :binding, :epoch, :owner, :expires_at) ON CONFLICT (id) DO UPDATE SET"
        " binding = :binding, epoch = :epoch, owner = :owner, expires_at = :expires_at",
        {
            "id": wanted.id, "binding": wanted.binding, "epoch": epoch, "owner": wanted.owner,
            "expires_at": wanted.expires_at,
        },
    )  # fmt: skip
    return SessionLease(wanted.id, wanted.binding, epoch, wanted.owner, wanted.expires_at)
