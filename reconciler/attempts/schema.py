"""The ledger's tables, and how an older ledger becomes a newer one.

One text a version, written in what SQLite and PostgreSQL share; ``store`` puts in the types and the
strictness of its own engine. A text that was delivered is never changed: the next version is another one.
"""

_FIRST = """
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL){strict};
CREATE TABLE attempt (
  id TEXT PRIMARY KEY,
  handle TEXT NOT NULL UNIQUE,
  scope TEXT NOT NULL,
  call_key TEXT NOT NULL,
  generation {int} NOT NULL,
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  project TEXT NOT NULL,
  principal TEXT NOT NULL,
  interface TEXT NOT NULL,
  tool TEXT NOT NULL,
  operation TEXT NOT NULL,
  effect TEXT NOT NULL,
  kind TEXT NOT NULL,
  grade TEXT NOT NULL,
  binding TEXT NOT NULL,
  input_digest TEXT NOT NULL,
  state TEXT NOT NULL,
  ver {int} NOT NULL,
  fence {int} NOT NULL,
  holder TEXT NOT NULL,
  lease_until {real} NOT NULL,
  transmissions {int} NOT NULL,
  deadline {real} NOT NULL,
  next_check_at {real} NOT NULL,
  checks {int} NOT NULL,
  parked {int} NOT NULL,
  over_at {real} NOT NULL,
  entered TEXT NOT NULL,
  decisions TEXT NOT NULL,
  execution TEXT NOT NULL,
  request TEXT NOT NULL,
  idempotency TEXT NOT NULL,
  provider TEXT NOT NULL,
  ended TEXT NOT NULL,
  cancel TEXT NOT NULL,
  UNIQUE (scope, call_key, generation)
){strict};
CREATE INDEX attempt_due ON attempt (next_check_at) WHERE over_at = 0;
CREATE INDEX attempt_open ON attempt (session, tool, input_digest) WHERE over_at = 0;
CREATE INDEX attempt_over ON attempt (over_at) WHERE over_at > 0;
CREATE TABLE event (
  attempt TEXT NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
  ver {int} NOT NULL,
  at {real} NOT NULL,
  src TEXT NOT NULL,
  dst TEXT NOT NULL,
  what TEXT NOT NULL,
  actor TEXT NOT NULL,
  evidence TEXT NOT NULL,
  PRIMARY KEY (attempt, ver)
){strict};
CREATE TABLE decision (
  id TEXT PRIMARY KEY,
  attempt TEXT NOT NULL,
  transmission {int} NOT NULL,
  verdict TEXT NOT NULL,
  wire_digest TEXT NOT NULL,
  rule TEXT NOT NULL,
  decided_at {real} NOT NULL,
  expires_at {real} NOT NULL,
  uses_left {int} NOT NULL,
  used_at {real} NOT NULL,
  basis TEXT NOT NULL
){strict};
CREATE INDEX decision_age ON decision (decided_at);
CREATE TABLE reservation (
  id {serial},
  resource TEXT NOT NULL,
  units {int} NOT NULL,
  attempt TEXT NOT NULL,
  fence {int} NOT NULL,
  kind TEXT NOT NULL,
  acquired_at {real} NOT NULL,
  released_at {real} NOT NULL
){strict};
CREATE INDEX reservation_held ON reservation (resource) WHERE released_at = 0;
CREATE INDEX reservation_of ON reservation (attempt);
CREATE TABLE session_lease (
  id TEXT PRIMARY KEY,
  binding TEXT NOT NULL,
  epoch {int} NOT NULL,
  owner TEXT NOT NULL,
  expires_at {real} NOT NULL
){strict};
"""

VERSIONS = (_FIRST,)
"""What to run to come from version N to N + 1, by N."""


def statements(version: int, words: dict[str, str]) -> tuple[str, ...]:
    """The statements that lead from a version to the next, in an engine's own ``words``."""
    text = VERSIONS[version].format(**words)
    return tuple(part.strip() for part in text.split(";") if part.strip())
