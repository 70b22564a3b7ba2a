// Package journal is what a durable flow keeps outside its memory: for each partition
// the records that came in and the steps that were committed, in one order each, and
// now and then a snapshot of the state.
//
// It knows nothing of flows: records, steps and snapshots are bytes. Package natslog keeps
// them on NATS JetStream; [Memory] keeps them in memory, with failures on demand. Both pass
// the checks of package journaltest, and so must any other [Log].
package journal

import (
	"context"
	"encoding/hex"
	"errors"
)

// Why a log refuses or fails.
var (
	// ErrFenced says that somebody else has committed since: who gets it has lost the
	// partition and must forget what it computed.
	ErrFenced = errors.New("journal: another owner has committed a step of this partition")

	// ErrOvertaken says that another owner has saved a snapshot meanwhile.
	ErrOvertaken = errors.New("journal: another owner has saved a snapshot of this partition")

	// ErrUnknown says that nobody knows whether a commit was made, because its answer
	// was lost. It must not be sent again: restore and look. Source: engine study 4.8, trap 4.
	ErrUnknown = errors.New("journal: it is not known whether the step was committed")

	// ErrTooLarge says that a record or a step is beyond what the log can hold.
	ErrTooLarge = errors.New("journal: too large")

	// ErrFull says that the log has no room, on disk or by its limits. Nothing was
	// lost: what was acknowledged is there, and this was not acknowledged.
	ErrFull = errors.New("journal: no room is left")

	// ErrPurged says that what is asked for is covered by a snapshot and gone.
	ErrPurged = errors.New("journal: these records were purged")

	// ErrMissing says that there is no log where one has to be.
	ErrMissing = errors.New("journal: there is no history")

	// ErrInUse says that another process, or another log of this one, has the log open.
	ErrInUse = errors.New("journal: the history is in use")

	// ErrDamaged says that something that was kept is gone or cannot be read, or is older
	// than something else that was kept. Waiting does not bring it back.
	ErrDamaged = errors.New("journal: the history is damaged")

	// ErrUnfinished says that a copy into the log was begun and not completed, so that it has
	// only a part of a history. Remove it, and copy again.
	ErrUnfinished = errors.New("journal: a copy into this log was not completed")

	// ErrClosed says that the log or the reader was closed.
	ErrClosed = errors.New("journal: closed")
)

// A Log keeps the history of all partitions. Positions grow over all of them: a message that is
// appended when another was acknowledged, or read, has a greater position, whichever partitions
// they are of. Its methods may be used by any number of
// goroutines, also for one partition. What is given to it may be changed when the call
// has returned; what it gives out must not be changed.
type Log interface {
	// Partitions returns how many partitions there are. It never changes.
	Partitions() int

	// Identity returns what was drawn when the log was made. It never changes: a log that was
	// removed and made anew has another one, and a log that notices this below it returns
	// [ErrDamaged] from everything that is asked of it.
	Identity() Identity

	// Room returns what is kept of all partitions, and the limit. It may ask servers.
	Room(ctx context.Context) (Room, error)

	// Append adds records to what came in, in order and next to each other, and returns
	// when they are durable. Records of several callers are gathered into one message
	// while another is under way; those of one call always share one, so together they
	// may be too large. The position is that of the message they are in: a step that has
	// taken it has taken them. No records are no message and the position zero. An error
	// leaves it open whether they were added, unless it is ErrTooLarge or ErrFull. Within the limit
	// of the log it is the first to return ErrFull, see [Purpose].
	Append(ctx context.Context, partition int, records ...[]byte) (position uint64, err error)

	// Read returns what came in after position, in order and without a gap; zero is the
	// beginning. It returns ErrPurged if a part of that is gone.
	Read(ctx context.Context, partition int, after uint64) (Reader, error)

	// Commit makes a step durable: its bytes, if nobody has committed since fence. It
	// returns the fence of the next one. A step larger than a message is kept in pieces
	// of which either all count or none. After ErrUnknown, Restore says what holds; any
	// other error says that the step was not committed.
	Commit(ctx context.Context, partition int, fence uint64, step []byte) (next uint64, err error)

	// Restore returns the latest snapshot and the steps committed after it, in order,
	// and the fence with which the next step can be committed. It returns ErrDamaged, and
	// does not wait, where steps are gone that must be there.
	Restore(ctx context.Context, partition int) (*History, error)

	// Steps returns the steps after the one that made the fence after, in order, and
	// waits for more, for those who follow a partition without owning it. Zero is the
	// oldest step kept. When the next step was purged, the reader returns ErrPurged.
	Steps(ctx context.Context, partition int, after uint64) (StepReader, error)

	// SaveSnapshot keeps a snapshot of the state right after the step with the fence at, in the
	// place of the one of the step with the fence after, which is zero if there is none. If
	// the latest snapshot is another one, or not of an earlier step, nothing is done, and it
	// returns ErrOvertaken. A snapshot half written is as good as none.
	SaveSnapshot(ctx context.Context, partition int, after, at uint64, state []byte) error

	// SavePiece keeps a part of a state that a snapshot names, of at most [MaxPiece] bytes, and
	// returns its number, which is greater than that of each piece of the partition whose
	// SavePiece has returned. A piece is durable when a snapshot that was saved after it is.
	// After an error it may be there; it may also be there twice.
	SavePiece(ctx context.Context, partition int, piece []byte) (number uint64, err error)
	// Pieces returns the pieces that are kept with numbers from first to last, in order.
	Pieces(ctx context.Context, partition int, first, last uint64) ([]Piece, error)
	// PurgePieces forgets the pieces with numbers below before.
	PurgePieces(ctx context.Context, partition int, before uint64) error

	// Purge forgets the records up to position in and the steps before the fence at. It
	// never forgets the last step, which is the fence. What no snapshot covers cannot be
	// restored afterwards: Restore returns ErrPurged.
	Purge(ctx context.Context, partition int, in, at uint64) error

	// Usage returns what a partition's history takes.
	Usage(ctx context.Context, partition int) (Usage, error)

	// Close ends the log. What waits for it gets an error.
	Close() error
}

// An Identity tells a log from any other.
type Identity [16]byte

func (id Identity) String() string { return hex.EncodeToString(id[:]) }

// A Message is records that became durable together: a step takes all of them or none.
type Message struct {
	Position uint64 // greater than that of every message before it, not always by one
	Records  [][]byte
}

// A Reader goes through what came in.
type Reader interface {
	// Next waits for at least one message and returns all that have arrived, at most
	// about max bytes of records beyond the first message. It returns ErrPurged if what
	// comes next was purged meanwhile, so a reader never skips anything, and ErrDamaged if
	// what was there when the reader was made is gone or cannot be read.
	Next(ctx context.Context, max int) ([]Message, error)
	// Last returns the position of the last message there is now, zero if none.
	Last(ctx context.Context) (uint64, error)
	Close()
}

// MaxPiece is how large a piece of a state may be.
const MaxPiece = 256 << 10

// A Piece is a part of a state.
type Piece struct {
	Number uint64
	Data   []byte
}

// A Step is a committed step.
type Step struct {
	Fence uint64 // that it made
	Data  []byte
}

// A StepReader goes through committed steps.
type StepReader interface {
	Next(ctx context.Context) (Step, error)
	Close()
}

// A History is what a partition is restored from.
type History struct {
	Snapshot []byte // nil if there is none
	At       uint64 // the fence of the step that the snapshot has in it
	Steps    []Step // after the snapshot
	Fence    uint64 // for the next commit; zero if none was ever made
	// End is where what came in ends: no record that was acknowledged before the call has a
	// greater position, also if the records were purged. A step that has taken more is
	// newer than the records.
	End uint64
}

// Usage says what a history takes.
type Usage struct {
	Records, Steps uint64 // messages and steps kept
	Bytes          uint64 // on disk, of one replica; partitions may share files, so it is an estimate
}
