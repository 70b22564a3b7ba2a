// Package authorize decides which authorizations (OAuth) of a tool server's users are open, who
// waits for them, and what becomes of them.
//
// All of one runtime is a state machine ([keyedstream.CallingMachine]) whose key is the name of
// the runtime, so its limits are exact. What comes from outside is an [In]:
//
//	calls that need a token ────┐               ┌─ told: the answer to an In, by its token
//	ends of calls and sessions ─┼─► authorize ──┼─ open: what a redirect or a start page finds
//	redirects ──────────────────┤    ▲   │      ├─ settled: what came of an authorization
//	confirmations ──────────────┘    │   ▼      └─ sum of those that are open
//	                                jobs: Outcome
//
// A step does nothing outside of the flow and sees no secret: it has names and digests. What
// needs a secret is a [Job], which makes one attempt. Jobs for one [Key] are done one after
// another, so a token is renewed once for all that wait for it, and nobody writes over what
// another job has kept. A job that had no outcome when the process ended is done again by the
// next one, which finds in the vault how far it was.
package authorize
