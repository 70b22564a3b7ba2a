package durable

import (
	"bytes"
	"time"
)

// How often a step has a digest unless [Options].Digest says it: one of so many, and fewer where
// digests would take more than that part of the time.
const (
	digestEvery = 16
	digestPart  = 50
)

// A digesting says which steps have a digest.
type digesting struct {
	steps int // without one since the last one
	next  int // how many there are
	ended time.Time
	took  time.Duration // the last one
}

// apart returns how many steps come until the next one with a digest: every of them on average. The
// number varies, so that all kinds of steps have their turn in a program that repeats itself.
func apart(every int, fence uint64) int {
	return 1 + int(fence*0x9e3779b97f4a7c15>>32%uint64(2*every-1))
}

// noteIfDue has the cutter list what the next step changes, and reports true, if that step has a
// digest. While a snapshot is written none has: see [logdriven.Cutter.Digest].
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
	d.next = apart(every, o.fence)
	o.cutter.Note()
	return true
}

// digestChanges returns the digest of the step that was made.
func (o *owner) digestChanges() ([]byte, error) {
	began := time.Now()
	data, err := o.cutter.Digest(nil)
	o.digests = digesting{next: o.digests.next, ended: time.Now(), took: time.Since(began)}
	return data, err
}

// comparesDigest reports whether the digest of a step, if it has one, has to be the same when it is made
// again: not that of another program, which remembers other things, and not where what was
// recorded stands.
func (o *owner) comparesDigest(was *step, fence uint64) bool {
	return was.changes != nil && o.program.same && (o.adopts == 0 || fence < o.adopts)
}

// compareDigest compares the digest of the step that was made again.
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
