package host

import (
	"context"

	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

var (
	// ErrNoMigrationKey is returned by [Runtime.Migrate] without [Options].MigrationKey.
	ErrNoMigrationKey = migration.ErrNoMigrationKey
	// ErrNotMoved is wrapped by the error of [Runtime.Migrate] if the session stayed, or
	// something is left to clean up; its text says what happened, in order.
	ErrNotMoved = migration.ErrNotMoved
	// ErrElsewhere is returned for a thread that lives at another host, or is on its way
	// there. The text says where it is.
	ErrElsewhere = migration.ErrElsewhere
	// ErrOtherKey says that what is kept was made with another key than the one that is given:
	// see [Options].OtherKeys.
	ErrOtherKey = migration.ErrOtherKey
)

// Migrate moves a session, named by its root thread, to another runtime, named by its
// public URL, which has the same MigrationKey. It returns when the destination serves the
// session, with its history, pending calls, prompts, subscriptions and tombstones.
//
// The order is the protocol's: the session is shut down here, and its callbacks have to
// wait; the destination makes its tool servers ready; the tool servers that need it hand
// their state over, all at once, each within [Timeouts].Migrate; when all have, the
// conversation moves; then the source is cleaned up. If anything fails before the
// destination has the session, everything is undone, tool servers take their state back,
// and the session goes on here.
//
// A callback that comes here later is handed on to where the session is. A runtime whose
// state is kept goes on with a migration after a crash; calling Migrate again for a session
// that is on its way waits for that. If the destination is lost at the moment in which it
// may have the session, Migrate waits until it answers.
//
// Without a Model the session is the calls of this one thread. See doc/protocol.md §10.
func (rt *Runtime) Migrate(ctx context.Context, session, to string) error {
	return programError(rt.moves.Move(ctx, session, to))
}
