// Package handover is how a session, a thread or a transfer passes from one location to another:
// one table for whatever moves, at the runtimes and at the tool servers (doc/protocol.md §10).
//
//	source        Here ─Freeze─► Frozen ─Send─► Doubt ─Commit─► Gone          Frozen, Doubt ─Abort─► Here
//	destination   None, Gone ─Stage─► Staged ─Commit─► Here                   Staged ─Abort─► None, or Gone
//
// From [Doubt] on the destination decides, with the first of [Commit] and [Abort] that it takes, and
// the source takes the same when it hears of it. Until then nobody serves what moves, so there are
// never two places that do. Every step may be repeated, and a repeated step changes nothing, also
// when later transfers have come between: see [State].
package handover
