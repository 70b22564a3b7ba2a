package durable

import (
	"cmp"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Options say where a flow's history is kept and how. Log must be given.
type Options struct {
	// Log is where the history is kept: disklog.Dir or natslog.Embedded in a folder,
	// natslog.Servers on a cluster that several processes share, [journal.Opened] in memory
	// for a test, or a log of the program's own that passes the checks of package journaltest.
	Log journal.Opener

	// Name tells applications apart that share a log. The default is "millrace".
	Name string

	// Client makes this process one that owns no partition: it sends, awaits entries and
	// makes nothing of what came in. It needs a log that processes share. Outputs other than
	// entries have nothing here, since they are given where a partition is owned.
	Client bool

	// Partitions is in how many parts the keys of a [dataflow.Cluster] location are
	// divided, for each such location. It is fixed when the history is made, and so are
	// the locations. Zero means 16. A [dataflow.Process] location has one. On one disk, one partition
	// is fastest: partitions divide what is written with one sync.
	Partitions int

	// Member is this process's name among those that run the flow. The default is made
	// up. Lease is how long a member that is not heard of keeps its partitions if it
	// cannot be asked, and how long one that hears nothing thinks that it has them; a
	// process that died is noticed within a tenth of a second without it. Servers elect a
	// new leader in 4 to 9 s, so with less than that all members own nothing for a moment.
	// Zero means 10 s.
	Member string
	Lease  time.Duration

	// SnapshotBytes and SnapshotAge are how much history, and how old, lies behind a
	// snapshot at most before there is a new one. Zero means 16 MiB and a minute. There is one
	// in a twelfth of that time where 64 KiB and some are behind the last one.
	// A restart goes through that much history.
	SnapshotBytes int
	SnapshotAge   time.Duration
	// KeepFor is how long steps are kept that lie behind the snapshot before the last one, with the
	// records that they took: for looking at with [History.Steps] and `millrace log show`. It is
	// time of the history, which stands still while nobody has the flow, counted back from the last
	// snapshot. Zero keeps nothing, and [Forever] everything, so that [History.Replay] and
	// [History.Verify] can make all steps again.
	//
	// A snapshot purges what is older. It reads each step that it purges, and one that it keeps. So a
	// partition that takes nothing purges nothing, and a start with a shorter KeepFor purges
	// more with its second snapshot. MaxBytes counts more than a finite KeepFor: when the log is a third full,
	// snapshots purge all that they can. With Forever nothing makes room.
	KeepFor time.Duration

	// MaxLag bounds what was sent to a partition and no step has taken: when it is reached, sends
	// wait, and return a [*BacklogError] when their context ends. Zero means 65,536 records and 16
	// MiB. Answers of calls, what was read or taken, and orders to the quarantine are not held back.
	//
	// In the process that owns the partition the bound is exact. Its senders in other processes
	// hear from it each 100 ms, and when another quarter has come in. Each of them may send a
	// quarter of what is free, or 64 records if that is more, before it hears again; half of that
	// when it has heard nothing for a second; and 64 records when it has heard nothing for a
	// Lease, as when nobody owns the partition. So together they may exceed MaxLag by that much each.
	// An owner reads as much ahead, and keeps that in memory.
	MaxLag Lag

	// Reject has a send return a [*BacklogError] at once, instead of waiting, when MaxLag is
	// reached. Its cause is [ErrNoRoom].
	Reject bool

	// StepBytes bounds the records of one step. Zero means 1 MiB.
	StepBytes int
	// MaxBytes bounds all that the log keeps of the history, of all partitions: records, steps,
	// states and snapshots. Zero means no bound. Sends have two fifths of it. Beyond that they
	// wait, or return a [*BacklogError] at once if Reject is set, and the owners save
	// snapshots, which make room, whatever SnapshotBytes and SnapshotAge are. The rest is for
	// them and for steps. SnapshotBytes, StepBytes and the bytes of MaxLag are no more than a
	// 16th, a 64th and an eighth of a partition's part of MaxBytes.
	//
	// Two snapshots are kept, so MaxBytes should be eight times what the states have, with the
	// elements of outputs that were not read. If it is too small, everything waits, the logger hears
	// how large the states are, and nothing is lost: a start with a larger bound goes on. With
	// KeepFor = [Forever] nothing makes room, and sends stop for good when it is reached.
	//
	// Files have a little more: see the documentation of the log. On a cluster it bounds each
	// replica.
	MaxBytes int64

	// Upgrade has the changes of the program since the history was made that a start would refuse
	// without a word: see [Change]. Operators that remember nothing need none, and new ones
	// begin with nothing.
	Upgrade []Change

	// Version is what people call this version of the program. The history says with it who made a
	// step, and errors and [Programs] show it. It changes nothing else. The default is the version of the
	// main module, or the first 12 digits of the revision that it was built from, or empty if the
	// build does not say. What is longer than 256 bytes is cut.
	Version string

	// RequireNames refuses a program in which only their order tells two operators apart that
	// a history depends on: name them with [dataflow.Named]. Without it that is a warning when
	// a history begins, and a change of their number is refused later.
	RequireNames bool

	// Divergence says what is done if a step of the history, made again, gives something else
	// than it gave: by a program with a mended function, after a crash. The default is
	// [RefuseDivergence].
	Divergence Divergence

	// Digest is how many steps there are, on average, for each one that is kept with a digest of what
	// it has changed of what operators remember, so that a step made again is compared by that, too: a
	// function that depends on more than its arguments is found when it remembers something else,
	// before it gives something else. The partition stops with a [*DivergedError] then. Zero
	// means 16, or more where digests would take a 50th of the time, and a negative number means
	// that no step has one. A digest takes time for each operator, and for encoding what the step
	// has changed. It has some two bytes for each operator and each entry, of the first 1,024 entries.
	Digest int

	// MaxGap is how far the time of a partition can go forward when it is restored: a clock of the
	// system that is further ahead of it may be wrong, and what is beyond does not count until the
	// next restore. Zero means a week.
	MaxGap time.Duration

	// EndOnFailure ends the flow when a function of it panics, as it ends in memory. Without it
	// the record or the timer that the function failed on is quarantined, see [App.Quarantine].
	// What neither is to blame for stops the partition, see [PartitionError]: a panic of a function
	// that is called by a slice, for an entry that is forgotten by time, or because the clock
	// moves the mark of a stream, as window.Idle and window.StampNow do.
	EndOnFailure bool

	// LeaveWithin bounds how long Stop works on a last snapshot. Zero means 10 s.
	LeaveWithin time.Duration

	// Witness knows, outside of the log, how far each partition has come, such as [WitnessDir] on another disk. With it a
	// start refuses with a [*DamagedError] a log that was put back as it was earlier: as a whole that
	// fits together, so nothing else notices. Nil means none.
	//
	// The owner of a partition has it told of the last step each second, and when it leaves. So
	// what is put back to a moment less than a second earlier may not be noticed. Steps never wait for it. One
	// that fails or does not answer for 5 s is left out, also by a start, with an error in the log
	// and in [Health]. What it has and cannot be read, or is of another history, refuses the
	// start.
	Witness Witness

	// Now is the clock that tells, when a partition is restored, how much time has passed
	// while nobody had it. Timers that run do not ask it; [App.Status] compares it with them. Nil
	// means [time.Now].
	Now func() time.Time

	Codec  Codec            // nil means [CBOR]
	Flow   dataflow.Options // of the flow; Record and Recorder are not for durable flows, whose log has the history
	Logger *slog.Logger     // nil means slog.Default()
}

// A Divergence is what is done with steps that give something else when they are made again.
type Divergence int

const (
	// RefuseDivergence has the partition stop with a [*DivergedError].
	RefuseDivergence Divergence = iota

	// KeepRecorded lets what steps gave stand, since others have seen it: all steps since the
	// last snapshot, from the first one that gives something else, have given what is recorded.
	// What operators remember is what the program makes of them now, and so are values of
	// singletons and asynchronous calls that are asked for. A warning in the log says from which
	// step on, and so do [PartitionStatus] and [PartitionInfo]; the history keeps it.
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
	o.StepBytes = cmp.Or(o.StepBytes, 1<<20)
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

// builtVersion returns the version that the build of this program says, or nothing.
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
