package host

import (
	"context"

	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

var (
	// ErrNoMigrationKey is returned by [Runtime.Migrate] without [Options].MigrationKey.
	ErrNoMigrationKey = migration.ErrNoMigrationKey
	// ErrNotMoved is wrapped by the error of [Runtime.Migrate] if the session stayed here, or if cleanup is still needed; the
	// text says what happened, in order.
	ErrNotMoved = migration.ErrNotMoved
	// ErrElsewhere is returned for a thread that has moved to another host, or is moving there. The text names the host.
	ErrElsewhere = migration.ErrElsewhere
	// ErrMoving is an [ErrElsewhere] for a thread that is moving. The move may fail, and then the thread stays here.
	ErrMoving = migration.ErrMoving
	// ErrBadDestination is returned by [Runtime.Migrate] for a destination that is not the URL of a host.
	ErrBadDestination = migration.ErrBadDestination
	// ErrOtherKey says that the stored state was made with another key than the one given: see [Options].OtherKeys.
	ErrOtherKey = migration.ErrOtherKey
)

// Migrate moves a session, named by its root thread, to another runtime, named by its public URL, which must have the same
// MigrationKey. It returns when the destination serves the session with its history, pending calls, prompts, subscriptions and
// the records of finished calls.
//
// The protocol defines the order. The session is frozen here, and its callbacks have to wait. The destination prepares its tool
// servers. The tool servers that need it hand over their state, all at the same time, each within [Timeouts].Migrate. When all
// have, the conversation moves, and then the source is cleaned up. If anything fails before the destination has the session,
// everything is undone, tool servers take their state back, and the session goes on here.
//
// A callback that arrives here later is forwarded to the host that has the session. A runtime with [Options].State continues a
// migration after a crash. A further call of Migrate for a session that is already moving waits for that move. If the destination
// becomes unreachable at the moment in which it may have the session, Migrate waits until it answers.
//
// Without a Model the session consists of the calls of this one thread. See doc/protocol.md §10.
func (rt *Runtime) Migrate(ctx context.Context, session, to string) error {
	return programError(rt.moves.Move(ctx, session, to))
}
