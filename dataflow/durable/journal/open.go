package journal

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// An Opener knows where a log is and opens it. A program passes one in durable.Options.Log. Packages
// natslog and disklog provide openers.
type Opener interface {
	// Open opens the log and creates it if it does not exist. It waits for servers that cannot be
	// reached for as long as ctx lasts. It returns an error at once if waiting cannot help.
	Open(ctx context.Context, o OpenOptions) (Log, error)

	// String describes where the log is, for messages to people. The text contains no password.
	String() string
}

// OpenOptions are the requirements of a flow on its log.
type OpenOptions struct {
	// Name is the name of the application: letters, digits, - and _. Empty means "millrace".
	Name string
	// Partitions is the number of partitions. It is fixed when the log is created. Zero means the
	// number that an existing log has, or 1 for a new one.
	Partitions int
	// MaxBytes limits everything that is kept: records, steps, pieces of states and snapshots. Each
	// [Purpose] has a share of the limit, beyond which the log returns [ErrFull]. Zero means no
	// limit except the available room.
	MaxBytes int64
	// Existing requires the log to exist already: Open creates nothing, and returns [ErrMissing] if
	// there is no log.
	Existing bool
	// Logger receives messages for the operator of the system. Nil means slog.Default.
	Logger *slog.Logger
}

// Opened is an opener for a log that is open already, such as a [Memory] in a test.
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

// A Conditioned log can report its condition, for monitoring.
type Conditioned interface {
	Log

	// Condition returns why the log accepts nothing now: ErrFull, an error that says that its
	// servers cannot be reached, or the error with which the log has ended. It returns nil if, as
	// far as the log knows, it accepts data. It asks no server and does not wait.
	Condition() error
}

// A Target is a log into which a history can be copied.
type Target interface {
	Log

	// BeginCopy durably marks the log as a copy in progress. Until [Target.EndCopy], Open of the log
	// returns [ErrUnfinished]. The log must be empty, and nobody else may have it open.
	BeginCopy(ctx context.Context) error
	// EndCopy durably marks the copy as complete.
	EndCopy(ctx context.Context) error
}

// A Shared log can be open in several processes at a time. They divide its partitions among them and
// can ask each other questions. Any number of goroutines may call its methods.
type Shared interface {
	Log

	// Join makes this process a member and returns when it owns its part of the partitions. Like
	// [Opener.Open], it waits for servers.
	Join(ctx context.Context, o MemberOptions) (Member, error)

	// Ask sends a question to the owner of a partition and returns the answer. It returns an error
	// if no answer arrives while ctx lasts, and [ErrClosed] if none will ever arrive.
	Ask(ctx context.Context, partition int, question []byte) (answer []byte, err error)

	// Answer registers answer, which is called in its own goroutine for each question to the owner
	// of a partition, until stop is called.
	Answer(partition int, answer func(question []byte) []byte) (stop func(), err error)

	// Announce sends a message about a partition to all processes, of at most 1 KiB. An empty
	// message means that the partition has a new owner. Some processes may not receive it.
	Announce(partition int, message []byte) error

	// Announced registers heard, which is called for each announcement, one at a time, until the log
	// is closed.
	Announced(heard func(partition int, message []byte)) error
}

// MemberOptions are the settings of a member.
type MemberOptions struct {
	// ID distinguishes this member from others: letters, digits, - and _. Empty means a random ID. A
	// second member with the same ID supersedes the first.
	ID string
	// Lease is how long a silent member counts as a member.
	Lease time.Duration
	// Version is the version of the member's program, for people: at most 256 bytes.
	Version string
}

// A Member is the part of one process in dividing the partitions. For about a lease, two members may
// both believe that they own a partition: [Log.Commit] lets only one of them continue.
type Member interface {
	// Next waits until the owned partitions differ from those that the previous call returned, and
	// returns them in order.
	Next(ctx context.Context) (owned []int, err error)
	// Owner returns the ID of the member that owns a partition, as far as this member knows.
	Owner(partition int) (id string, ok bool)
	// Leave gives this member's partitions to the others at once.
	Leave(ctx context.Context) error
}

// A Roster is a member that knows the other members. It is optional.
type Roster interface {
	Member

	// Members returns the IDs of the live members as this one sees them, in order. Members that it
	// suspects to be gone are left out, and so is this member itself while its own lease has
	// expired. Members asks nobody.
	Members() []string
}

// A Refuser is a member that can give back a partition that its program cannot run. It is optional:
// without it, such a partition stays with its owner and does not run.
type Refuser interface {
	Member

	// Refuse gives a partition back. The partition goes to a member that does not refuse it, if
	// there is one. Otherwise it goes to a member that refuses it with never false, if there is one,
	// and otherwise to any member. So it may come back to this member, and then [Member.Next]
	// returns. A refusal lasts until Accept or Leave.
	//
	// Refuse returns true if the partition had come back already before the call, because all
	// members refuse it. It returns false if the member no longer owns the partition when Refuse
	// returns. Refuse does not wait.
	Refuse(partition int, never bool, why string) (kept bool)
	// Accept ends the refusal of a partition, if there is one.
	Accept(partition int)
}

// A MemberInfo is the public information about a member.
type MemberInfo struct {
	ID      string
	Version string    // of its program, as [MemberOptions].Version
	Joined  time.Time // by its own clock
	Owns    []int     // partitions, in order
	Refuses []int     // partitions, in order
	Why     string    // it refuses the latest of them
}

// A Surveyed log is a shared log that can list its members for a process that is not one of them.
type Surveyed interface {
	Shared

	// Survey returns the members in the order of their IDs. It asks servers. A member that has died
	// a moment ago may still be listed.
	Survey(ctx context.Context) ([]MemberInfo, error)
}
