// Package journal defines the [Log] in which a durable flow keeps its history. For each partition a
// log holds two ordered sequences, the records that came in and the steps that were committed, and
// from time to time a snapshot of the state.
//
// The package knows nothing of flows: records, steps and snapshots are bytes. Package natslog keeps
// them on NATS JetStream, package disklog in files of this machine, and [Memory] in memory, with
// failures on demand. All pass the checks of package journaltest, and any other [Log] must pass
// them too. Start with [Log].
package journal

import (
	"context"
	"encoding/hex"
	"errors"
)

// Errors of a log.
var (
	// ErrFenced says that another owner has committed a step since. The caller has lost the
	// partition and must discard what it computed.
	ErrFenced = errors.New("journal: another owner has committed a step of this partition")

	// ErrOvertaken says that another owner has saved a snapshot in the meantime.
	ErrOvertaken = errors.New("journal: another owner has saved a snapshot of this partition")

	// ErrUnknown says that it is not known whether a commit was made, because its answer was lost.
	// Do not send the commit again: call Restore to find out.
	ErrUnknown = errors.New("journal: it is not known whether the step was committed")

	// ErrTooLarge says that a record or a step is larger than the log can hold. Package serve answers 413.
	ErrTooLarge error = sizeError{}

	// ErrFull says that the log has no room left, on disk or within its limits. Nothing
	// acknowledged was lost, and the refused data was not acknowledged.
	ErrFull = errors.New("journal: no room is left")

	// ErrPurged says that the requested data was purged: a snapshot covers it.
	ErrPurged = errors.New("journal: these records were purged")

	// ErrMissing says that a log that must exist does not.
	ErrMissing = errors.New("journal: there is no history")

	// ErrInUse says that another process, or another log of this process, has the log open.
	ErrInUse = errors.New("journal: the history is in use")

	// ErrDamaged says that stored data is missing, cannot be read, or is older than other stored
	// data. Waiting does not bring it back.
	ErrDamaged = errors.New("journal: the history is damaged")

	// ErrUnfinished says that a copy into the log was started and not completed, so the log holds
	// only a part of a history. Remove the log and copy again.
	ErrUnfinished = errors.New("journal: a copy into this log was not completed")

	// ErrClosed says that the log or the reader was closed.
	ErrClosed = errors.New("journal: closed")
)

// A sizeError is ErrTooLarge. The packages below this one know it by its method.
type sizeError struct{}

func (sizeError) Error() string { return "journal: too large" }

// TooLarge reports that the same data will be refused again.
func (sizeError) TooLarge() bool { return true }

// A Log keeps the history of all partitions. Positions grow across all partitions: a message that
// is appended after another was acknowledged or read has a greater position, whichever partitions
// the two belong to.
//
// Any number of goroutines may call the methods, also for one partition. The caller may change its
// arguments after a call has returned. It must not change what a call returned.
type Log interface {
	// Partitions returns how many partitions there are. It never changes.
	Partitions() int

	// Identity returns the random value that was drawn when the log was created. It never changes.
	// A log that was removed and created anew has another identity. An open log that notices such a
	// replacement returns [ErrDamaged] from every operation.
	Identity() Identity

	// Room returns how much is kept for all partitions, and the limit. It may ask servers.
	Room(ctx context.Context) (Room, error)

	// Append adds records to the input, in order and next to each other, and returns when they are
	// durable. The records of one call always share one message, so together they may be too large.
	// Records of several callers are gathered into one message while another is being written. The
	// position is that of the message: a step that has taken the position has taken all its
	// records. Without records, Append adds no message and returns position zero. The log may keep
	// the memory of the records, so the caller must not change them, also after Append has returned.
	//
	// After an error the records may or may not have been added, except after ErrTooLarge or
	// ErrFull: then they were not. When the log reaches its limit, Append is the first method to
	// return ErrFull, see [Purpose].
	Append(ctx context.Context, partition int, records ...[]byte) (position uint64, err error)

	// Read returns the input after position, in order and without a gap. Zero is the beginning. It
	// returns ErrPurged if a part of that was purged.
	Read(ctx context.Context, partition int, after uint64) (Reader, error)

	// Commit makes a step durable, if nobody has committed a step since fence, and returns the
	// fence of the next one. A step larger than a message is kept in pieces, of which all count or
	// none. After ErrUnknown, call Restore to find out what holds. Any other error says that the
	// step was not committed.
	Commit(ctx context.Context, partition int, fence uint64, step []byte) (next uint64, err error)

	// Restore returns the latest snapshot, the steps committed after it, in order, and the fence
	// for the next commit. If required steps are missing, it returns ErrDamaged and does not wait.
	Restore(ctx context.Context, partition int) (*History, error)

	// Steps returns the steps after the one that made the fence after, in order, and then waits for
	// more. It lets a process follow a partition without owning it. Zero starts at the oldest step
	// kept. When the next step was purged, the reader returns ErrPurged.
	Steps(ctx context.Context, partition int, after uint64) (StepReader, error)

	// SaveSnapshot keeps a snapshot of the state right after the step with the fence at. It
	// replaces the snapshot of the step with the fence after, which is zero if there is no snapshot
	// yet. If the latest snapshot is another one, or at is not later, SaveSnapshot changes nothing
	// and returns ErrOvertaken. A snapshot that was written only in part counts as none.
	SaveSnapshot(ctx context.Context, partition int, after, at uint64, state []byte) error

	// SavePiece keeps a part of a state, of at most [MaxPiece] bytes, that a snapshot refers to. It
	// returns the number of the piece, which is greater than that of every piece of the partition
	// whose SavePiece has returned. A piece is durable once a snapshot saved after it is. After an
	// error the piece may exist, even twice.
	SavePiece(ctx context.Context, partition int, piece []byte) (number uint64, err error)
	// Pieces returns the kept pieces with numbers from first to last, in order.
	Pieces(ctx context.Context, partition int, first, last uint64) ([]Piece, error)
	// PurgePieces deletes the pieces with numbers below before.
	PurgePieces(ctx context.Context, partition int, before uint64) error

	// Purge deletes the records up to position in, and the steps before the fence at. It never
	// deletes the last step, because that holds the fence. If no snapshot covers the deleted steps,
	// the partition cannot be restored: Restore returns ErrPurged.
	Purge(ctx context.Context, partition int, in, at uint64) error

	// Usage returns how much the history of a partition takes.
	Usage(ctx context.Context, partition int) (Usage, error)

	// Close closes the log. Calls that wait return an error.
	Close() error
}

// An Identity distinguishes a log from every other.
type Identity [16]byte

func (id Identity) String() string { return hex.EncodeToString(id[:]) }

// A Message is a group of records that became durable together. A step takes all of them or none.
type Message struct {
	Position uint64 // greater than that of every message before it, not always by one
	Records  [][]byte
}

// A Reader reads the input of a partition.
type Reader interface {
	// Next waits for at least one message and returns all that have arrived, limited to about max
	// bytes of records beyond the first message. It returns ErrPurged if the next message was
	// purged in the meantime, so a reader never skips anything. It returns ErrDamaged if a message
	// that existed when the reader was made is missing or cannot be read.
	Next(ctx context.Context, max int) ([]Message, error)
	// Last returns the position of the last message so far, or zero if there is none.
	Last(ctx context.Context) (uint64, error)
	Close()
}

// MaxPiece is the largest size of a piece, in bytes.
const MaxPiece = 256 << 10

// A Piece is a part of a state.
type Piece struct {
	Number uint64
	Data   []byte
}

// A Step is a committed step.
type Step struct {
	Fence uint64 // made by this step
	Data  []byte
}

// A StepReader reads committed steps.
type StepReader interface {
	Next(ctx context.Context) (Step, error)
	Close()
}

// A History is the data from which a partition is restored.
type History struct {
	Snapshot []byte // nil if there is none
	At       uint64 // the fence of the last step that the snapshot includes
	Steps    []Step // after the snapshot
	Fence    uint64 // for the next commit; zero if none was ever made
	// End is where the input ends: no record that was acknowledged before the call has a greater
	// position. It holds also after the records were purged. A step that has taken a greater
	// position is newer than the records.
	End uint64
}

// Usage is the size of a history.
type Usage struct {
	Records, Steps uint64 // messages and steps kept
	Bytes          uint64 // on disk, of one replica; partitions may share files, so it is an estimate
}
