// Package authorize tracks the open authorizations (OAuth) of a tool server's users, the calls that
// wait for them, and their outcomes.
//
// All authorizations of one runtime are a state machine ([keyedstream.CallingMachine]) whose key is
// the name of the runtime, so its limits are exact. Its inputs are [In] values:
//
//	calls that need a token ────┐               ┌─ told: the answer to an In, by its token
//	ends of calls and sessions ─┼─► authorize ──┼─ open: what redirects and start pages look up
//	redirects ──────────────────┤    ▲   │      ├─ settled: the outcome of an authorization
//	confirmations ──────────────┘    │   ▼      └─ the number of open ones
//	                                jobs: Outcome
//
// A step has no effect outside the flow and sees no secret: it has only names and digests. Work
// that needs a secret is a [Job], which makes one attempt. The jobs for one [Key] run one after
// another, so a token is renewed once for all that wait for it, and no job overwrites what another
// one has stored. A job without an outcome when the process ended is done again by the next
// process, which finds in the vault how far it was.
package authorize
