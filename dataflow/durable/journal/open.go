package journal

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// An Opener knows where a log is and opens it. A program gives one to
// durable.Options.Log; packages natslog and disklog have them.
type Opener interface {
	// Open opens the log, and makes it if it is not there. It waits for servers that cannot
	// be reached for as long as ctx lasts, and returns an error at once for what waiting
	// cannot change.
	Open(ctx context.Context, o OpenOptions) (Log, error)

	// String says where the log is, for messages to people. It has no password in it.
	String() string
}

// OpenOptions are what a flow asks of its log.
type OpenOptions struct {
	// Name is that of the application: letters, digits, - and _. Empty means "millrace".
	Name string
	// Partitions is how many there are. It is fixed when the log is made. Zero means as many
	// as there are, or 1 for a new log.
	Partitions int
	// MaxBytes bounds all that is kept: records, steps, pieces of states and snapshots. Each
	// [Purpose] has a share of it, beyond which [ErrFull] is returned. Zero means as much as
	// there is room.
	MaxBytes int64
	// Existing says that the log has to be there already: nothing is made, and Open returns
	// [ErrMissing] if there is none.
	Existing bool
	// Logger gets what the operator of the system should know. Nil means slog.Default.
	Logger *slog.Logger
}

// Opened is an opener of a log that is open already, such as a [Memory] in a test.
type Opened struct{ Log Log }

// Open returns the log.
func (o Opened) Open(_ context.Context, want OpenOptions) (Log, error) {
	if n := o.Log.Partitions(); want.Partitions != 0 && want.Partitions != n {
		return nil, fmt.Errorf("journal: the log has %d partitions, and the flow %d", n, want.Partitions)
	}
	if m, ok := o.Log.(*Memory); ok && m.data.copying.Load() {
		return nil, ErrUnfinished
	}
	return o.Log, nil
}

func (o Opened) String() string { return fmt.Sprintf("%T", o.Log) }

// A Conditioned log knows how it is. Whoever watches a flow asks it.
type Conditioned interface {
	Log

	// Condition returns why the log takes nothing now: ErrFull, or an error that says that its
	// servers cannot be reached, or why it has ended. It returns nil if it takes something,
	// as far as it knows: it asks nobody and does not wait.
	Condition() error
}

// A Target is a log into which a history can be copied.
type Target interface {
	Log

	// BeginCopy makes it durable that the log is being copied into. Until [Target.EndCopy], an Open
	// of it returns [ErrUnfinished]. The log has nothing in it, and nobody else has it open.
	BeginCopy(ctx context.Context) error
	// EndCopy makes it durable that the copy is complete.
	EndCopy(ctx context.Context) error
}

// A Shared log is one that several processes have open at a time. They divide its partitions
// among them, and ask each other. Its methods may be used by any number of goroutines.
type Shared interface {
	Log

	// Join makes this process a member, and returns when it owns its part of the partitions.
	// It waits for servers like [Opener.Open].
	Join(ctx context.Context, o MemberOptions) (Member, error)

	// Ask sends a question to the owner of a partition. It returns an error if there is no
	// answer while ctx lasts, and [ErrClosed] if there never will be one.
	Ask(ctx context.Context, partition int, question []byte) (answer []byte, err error)

	// Answer has answer called, in a goroutine of its own, with each question that is asked of
	// the owner of a partition, until stop is called.
	Answer(partition int, answer func(question []byte) []byte) (stop func(), err error)

	// Announce says something of a partition to all processes, in at most 1 KiB. Nothing means
	// that it has a new owner. Some may not hear of it.
	Announce(partition int, said []byte) error

	// Announced has heard called with all that is announced, one after the other, until the log
	// is closed.
	Announced(heard func(partition int, said []byte)) error
}

// MemberOptions are the settings of a member.
type MemberOptions struct {
	// ID tells this member from others: letters, digits, - and _. Empty means a random one. A
	// second member with the same ID supersedes the first.
	ID string
	// Lease is how long a member counts after it was last heard of.
	Lease time.Duration
	// Version is that of the member's program, for people: at most 256 bytes.
	Version string
}

// A Member is a process's part in dividing partitions. Two members may take one partition
// for theirs at the same time, for about a lease: [Log.Commit] lets one of them go on.
type Member interface {
	// Next waits until other partitions are owned than at the call before, and returns them,
	// in order.
	Next(ctx context.Context) (owned []int, err error)
	// Owner returns the ID of the member that owns a partition as this one sees it.
	Owner(partition int) (id string, ok bool)
	// Leave gives this member's partitions to the others at once.
	Leave(ctx context.Context) error
}

// A Roster is a member that knows who the others are. It is optional.
type Roster interface {
	Member

	// Members returns the IDs of the members that count as this one sees it, in order: without those
	// that it suspects to be gone, and without itself while its own lease is over. It asks nobody.
	Members() []string
}

// A Refuser is a member that can give back a partition that its program cannot run. It is optional:
// without it such a partition stays where it is, and does not run there.
type Refuser interface {
	Member

	// Refuse gives a partition back. It goes to a member that does not refuse it, if there is one;
	// else to one that said never false, if there is one; else to any. So it may come back to this
	// member, and then [Member.Next] returns. A refusal lasts until Accept or Leave.
	//
	// Refuse returns true if the partition has come back before the call: all members refuse it. It
	// returns false if it is not owned here when Refuse returns. It does not wait.
	Refuse(partition int, never bool, why string) (kept bool)
	// Accept ends the refusal of a partition, if there is one.
	Accept(partition int)
}

// A MemberInfo is what anybody can know of a member.
type MemberInfo struct {
	ID      string
	Version string    // of its program, as [MemberOptions].Version
	Joined  time.Time // by its own clock
	Owns    []int     // partitions, in order
	Refuses []int     // partitions, in order
	Why     string    // it refuses the latest one of them
}

// A Surveyed log is a shared one that tells a process that is no member who the members are.
type Surveyed interface {
	Shared

	// Survey returns the members, in the order of their IDs. It asks servers. A member that has died
	// a moment ago may be among them.
	Survey(ctx context.Context) ([]MemberInfo, error)
}
