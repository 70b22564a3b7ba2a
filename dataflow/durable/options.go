package durable

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Options say where and how a flow's history is kept. Log is required.
type Options struct {
	// Log opens the log that holds the history: disklog.Dir or natslog.Embedded in a folder, natslog.Servers on
	// a cluster that several processes share, [journal.Opened] in memory for a test, or a log of the program's
	// own that passes the checks of package journaltest.
	Log journal.Opener

	// Name identifies the application in a log that several applications share. The default is "millrace".
	Name string

	// Client makes this process own no partition: it sends and awaits entries, but makes no steps. It needs a
	// log that processes share. Outputs of elements stay empty, since elements are given where a partition is
	// owned. Outputs of one value show the value that the owner of their partition has.
	Client bool

	// Partitions is the number of parts into which the keys of each [dataflow.Cluster] location are divided. It
	// is fixed when the history is made, and so are the locations. Zero means 16. A [dataflow.Process] location
	// has one partition. On one disk, one partition is fastest, since with more of them each
	// sync writes less.
	Partitions int

	// Member is this process's name among those that run the flow. The default is a generated name.
	//
	// Lease is how long a silent member keeps its partitions if it cannot be asked, and how long a member that
	// is cut off may believe that it still owns them. A process that died is noticed within a tenth of a second
	// regardless of Lease. Servers take 4 to 9 s to elect a new leader; with a shorter Lease, all members own
	// nothing for a moment during an election. Zero means 10 s.
	Member string
	Lease  time.Duration

	// SnapshotBytes and SnapshotAge bound the history since the last snapshot, in size and in age: when either
	// is reached, a new snapshot is made. Zero means 16 MiB and one minute. A snapshot is made after a twelfth
	// of SnapshotAge already if a little over 64 KiB of history have come since the last one. A restart replays
	// the history since the last snapshot.
	SnapshotBytes int
	SnapshotAge   time.Duration
	// KeepFor is how long to keep steps that are older than the last snapshot but one, together with the
	// records that they took, for [History.Steps] and `millrace log show`. It is measured in time of the
	// history, which stands still while no process runs the flow, and counts back from the last snapshot. Zero
	// keeps nothing. [Forever] keeps everything, so that [History.Replay] and [History.Verify] can replay all
	// steps.
	//
	// Each snapshot purges what is older. It reads each step that it purges and one that it keeps. So a
	// partition that takes nothing purges nothing, and after a start with a shorter KeepFor the second snapshot
	// purges the difference. MaxBytes has priority over a finite KeepFor: when the log is a third full,
	// snapshots purge all they can. With Forever nothing frees space.
	KeepFor time.Duration

	// MaxLag bounds the records that were sent to a partition and that no step has taken. When it is reached,
	// sends wait, and return a [*BacklogError] when their context ends. Zero means 65,536 records and 16 MiB.
	// Answers of calls, acknowledgements of what was read or taken, and instructions to the quarantine are not
	// held back.
	//
	// In the process that owns the partition the bound is exact. Senders in other processes get an update from
	// it every 100 ms, and whenever another quarter of the bound has come in. Until the next update each of
	// them may send a quarter of what is free, or 64 records if that is more; half of that if it has had no
	// update for a second; and 64 records if it has had none for a Lease, as when nobody owns the partition. So
	// each of them may exceed MaxLag by that much. An owner reads up to MaxLag ahead, and keeps it in memory.
	MaxLag Lag

	// Reject makes a send return a [*BacklogError] whose cause is [ErrNoRoom] when MaxLag is reached, instead
	// of waiting.
	Reject bool

	// StepBytes bounds the records of one step, except that those that were appended together are taken
	// together. Zero means 4 MiB. A partition that is behind takes more records with one commit if the bound is
	// higher, but timers and reads of its state wait longer for the end of a step.
	StepBytes int
	// MaxBytes bounds what the log holds of the history, over all partitions: records, steps, states and
	// snapshots. Zero means no bound. Sends may use two fifths of it. Beyond that they wait, or return a
	// [*BacklogError] at once if Reject is set, and the owners save snapshots, which free space, regardless of
	// SnapshotBytes and SnapshotAge. The rest is reserved for snapshots and steps. SnapshotBytes, StepBytes and
	// the bytes of MaxLag are limited to a 16th, a 64th and an eighth of a partition's share of MaxBytes.
	//
	// Two snapshots are kept, so MaxBytes should be eight times the size of the states, including the unread
	// elements of outputs. If it is too small, everything waits, the logger reports how large the states are,
	// and nothing is lost: a start with a larger bound goes on. With KeepFor = [Forever] nothing frees space,
	// and sends stop for good when the bound is reached.
	//
	// Files may be a little larger: see the documentation of the log. On a cluster the bound applies to each
	// replica.
	MaxBytes int64

	// Upgrade declares the changes of the program since the history was made that a start would otherwise
	// refuse: see [Change]. Operators that remember nothing need no declaration, and new ones begin empty.
	Upgrade []Change

	// Version is the name of this version of the program, for people. The history records which version made a
	// step, and errors and [Programs] show it; it has no other effect. The default is the version of the main
	// module, else the first 12 digits of the revision it was built from, else empty. It is truncated to 256
	// bytes.
	Version string

	// RequireNames refuses a program in which only their order distinguishes two operators that the history
	// depends on: name them with [dataflow.Named]. Without it, this is a warning when a history begins, and a
	// later change of the number of such operators is refused.
	RequireNames bool

	// Divergence says what happens if a replayed step gives a different result than when it was committed, as
	// when a function was corrected after a crash. The default is [RefuseDivergence].
	Divergence Divergence

	// Digest is the average number of steps for each step that is stored with a digest of its changes to
	// operator state. When such a step is replayed, the digest is compared too, so a function that depends on
	// more than its arguments is found when it changes state differently, before it gives a different output;
	// the partition then stops with a [*DivergedError]. Zero means 16, or more if digests would take over a
	// 50th of the time. A negative number turns digests off. A digest takes time for each operator and for
	// encoding the step's changes, and about two bytes for each operator and each entry, of the first 1,024
	// entries.
	Digest int

	// MaxGap is how far the time of a partition can jump forward when it is restored. If the system clock is
	// further ahead than that it may be wrong, and the excess does not count until the next restore. Zero means
	// a week.
	MaxGap time.Duration

	// EndOnFailure ends the flow when one of its functions panics, as in memory. Without it, the record or
	// timer that the function failed on is quarantined, see [App.Quarantine]. A panic that neither causes stops
	// the partition, see [PartitionError]: one in a function that is called by a slice, for an entry that
	// expires, or because the clock moves the mark of a stream, as window.Idle and window.StampNow do.
	EndOnFailure bool

	// LeaveWithin bounds the time that Stop spends on a last snapshot. Zero means 10 s.
	LeaveWithin time.Duration

	// Witness records, outside of the log, how far each partition has come; an example is [WitnessDir] on
	// another disk. With it, a start refuses a log that was replaced by an earlier copy, with a
	// [*DamagedError]. Such a copy is consistent in itself, so nothing else notices. Nil means no witness.
	//
	// The owner of a partition saves the last step in the witness every second, and when it leaves. So a copy
	// that is less than a second older may go unnoticed. Steps never wait for the witness. A witness that fails
	// or does not answer for 5 s is ignored, even by a start, with an error in the log and in [Health]. A start
	// is refused if the content of the witness cannot be read or belongs to another history.
	Witness Witness

	// Now is the clock that determines, when a partition is restored, how much time has passed since it last
	// ran. Running timers do not use it; [App.Status] compares it with them. Nil means [time.Now].
	Now func() time.Time

	Codec  Codec            // nil means [CBOR]
	Flow   dataflow.Options // for the flow; Record and Recorder are ignored, since the log has the history
	Logger *slog.Logger     // nil means slog.Default()
}

// A Divergence says what to do with steps that give a different result when they are replayed.
type Divergence int

const (
	// RefuseDivergence stops the partition with a [*DivergedError].
	RefuseDivergence Divergence = iota

	// KeepRecorded keeps the recorded outputs, since others have seen them, of all steps since the last
	// snapshot, from the first one that gives a different result. State, values of singletons and requests for
	// asynchronous calls are what the program makes of these steps now. A warning in the log names the first
	// such step, and so do [PartitionStatus] and [PartitionInfo]; the history keeps it.
	KeepRecorded
)

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Name = cmp.Or(o.Name, "millrace")
	if opened, ok := o.Log.(journal.Opened); ok {
		o.Partitions = cmp.Or(o.Partitions, opened.Log.Partitions())
	}
	o.Partitions = cmp.Or(o.Partitions, 16)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, 16<<20)
	o.SnapshotAge = cmp.Or(o.SnapshotAge, time.Minute)
	o.StepBytes = cmp.Or(o.StepBytes, 4<<20)
	o.MaxLag.Records = cmp.Or(o.MaxLag.Records, 1<<16)
	o.MaxLag.Bytes = cmp.Or(o.MaxLag.Bytes, 16<<20)
	o.MaxGap = cmp.Or(o.MaxGap, 7*24*time.Hour)
	o.LeaveWithin = cmp.Or(o.LeaveWithin, 10*time.Second)
	o.Version = strings.ToValidUTF8(cmp.Or(o.Version, builtVersion()), "")
	o.Version = strings.ToValidUTF8(o.Version[:min(len(o.Version), 256)], "")
	o.Flow.Record, o.Flow.Recorder = nil, nil
	o.Witness = newPatientWitness(o.Witness)
	if o.Codec == nil {
		o.Codec = CBOR()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// check returns an error if a size or a time is negative. Nothing could be taken with such a bound.
func (o *Options) check() error {
	for name, n := range map[string]int64{
		"Partitions": int64(o.Partitions), "Lease": int64(o.Lease), "SnapshotBytes": int64(o.SnapshotBytes), "SnapshotAge": int64(o.SnapshotAge),
		"KeepFor": int64(o.KeepFor), "MaxLag.Records": int64(o.MaxLag.Records), "MaxLag.Bytes": int64(o.MaxLag.Bytes), "StepBytes": int64(o.StepBytes),
		"MaxBytes": o.MaxBytes, "MaxGap": int64(o.MaxGap), "LeaveWithin": int64(o.LeaveWithin),
	} {
		if n < 0 {
			return fmt.Errorf("durable: Options.%s is %d: it must not be negative", name, n)
		}
	}
	return nil
}

// builtVersion returns the version in the program's build information, or "".
func builtVersion() string {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := built.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range built.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return ""
}
