package durable

import (
	"bytes"
	"time"
)

// How often steps have a digest if [Options].Digest is zero: one of digestEvery steps, and fewer if digests
// would take more than one part in digestPart of the time.
const (
	digestEvery = 16
	digestPart  = 50
)

// A digestSchedule decides which steps have a digest.
type digestSchedule struct {
	steps int // since the last step with a digest
	next  int // how many there are until the next one
	ended time.Time
	took  time.Duration // duration of the last digest
}

// stepsToDigest returns how many steps come until the next one with a digest: every of them on average. The number
// varies, so that a program that repeats itself gets digests of all kinds of steps.
func stepsToDigest(every int, fence uint64) int {
	return 1 + int(fence*0x9e3779b97f4a7c15>>32%uint64(2*every-1))
}

// noteIfDue decides whether the next step has a digest. If so, it makes the cutter list the step's changes and
// returns true. No step has a digest while a snapshot is written: see [logdriven.Cutter.Digest].
func (o *owner) noteIfDue() bool {
	d := &o.digests
	d.steps++
	every := o.opts.Digest
	if every == 0 {
		if every = digestEvery; time.Since(d.ended) < digestPart*d.took {
			return false
		}
	}
	if every < 0 || d.steps < d.next || o.cut != nil {
		return false
	}
	d.next = stepsToDigest(every, o.fence)
	o.cutter.Note()
	return true
}

// digestChanges returns the digest of the step that was just made.
func (o *owner) digestChanges() ([]byte, error) {
	began := time.Now()
	data, err := o.cutter.Digest(nil)
	o.digests = digestSchedule{next: o.digests.next, ended: time.Now(), took: time.Since(began)}
	return data, err
}

// comparesDigest reports whether the digest of a step, if it has one, must be the same in a replay. It need not
// be if another program made the step, since that remembers other things, or if the recorded outputs are kept.
func (o *owner) comparesDigest(was *step, fence uint64) bool {
	return was.changes != nil && o.program.same && (o.adopts == 0 || fence < o.adopts)
}

// compareDigest compares the digest of the step that was just replayed with the recorded one.
func (o *owner) compareDigest(was *step, fence uint64) error {
	is, err := o.cutter.Digest(nil)
	if err != nil || bytes.Equal(is, was.changes) {
		return err
	}
	diverged := &DivergedError{
		Partition: o.partition, Step: fence, Was: was.Outputs, Is: was.Outputs, State: true,
		MadeBy: o.last.version, AgainBy: o.opts.Version,
	}
	diverged.Operator, diverged.Key = o.cutter.Differs(is, was.changes)
	return diverged
}
