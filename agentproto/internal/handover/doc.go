// Package handover defines how a session, a thread or a transfer passes from one location to another. It
// has one transition table for everything that moves, for runtimes and tool servers (doc/protocol.md §10).
//
//	source        Here ─Freeze─► Frozen ─Send─► Doubt ─Commit─► Gone          Frozen, Doubt ─Abort─► Here
//	destination   None, Gone ─Stage─► Staged ─Commit─► Here                   Staged ─Abort─► None, or Gone
//
// From [Doubt] on the destination decides, with the first [Commit] or [Abort] that it takes, and the
// source follows when it learns the decision. Until then nobody serves what moves, so there are never two
// locations that do. Every step may be repeated. A repeated step changes nothing, even if later transfers
// have come between: see [State].
package handover
