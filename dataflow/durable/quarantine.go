package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A Letter is a quarantined record: one that the program cannot handle, because a function panicked on it,
// because it cannot be decoded, or because what is made of it cannot be encoded or is too large to be sent to
// another location. Later records of its key wait behind it, so that their order stays and the
// other keys go on. A letter is part of the history.
//
// Three other things can be a letter:
//   - An asynchronous call that panicked, or whose answer cannot be stored. [App.Retry] makes the call again,
//     and so does each restore of its partition. The answer of a call, on the other hand, is a record: if the
//     program cannot handle it, App.Retry handles that answer again, and nothing makes the call again.
//   - A timer of a state machine or of an entry of keyedsingleton.After on which a function panicked. It does
//     not fire until [App.Retry] fires it or the machine sets it anew; [App.Drop] stops it.
//   - One firing of dataflow.Interval, without a key. [App.Retry] fires it once more.
type Letter struct {
	Partition int
	ID        uint64 // its number in the partition

	Location string // name of the location
	Input    string // operator that the record is for, such as "keyedstream.Input votes"
	Operator string // operator whose function failed, with its position in the source; or empty
	Reason   string // what the function panicked with, or why the record cannot be decoded
	At       time.Time

	Key    []byte // encoded; of a call, of a timer, or of the records that wait behind this one; else nil
	Record []byte // encoded: the value of a record; why a call failed; the number of a timer, 0 if its key has only one; nil for a firing
	Behind int    // number of records of the key that wait behind it
}

// ErrNoLetter says that there is no such letter, or that it was retried or dropped already.
var ErrNoLetter = errors.New("durable: there is no such record in the quarantine")

// Quarantine returns the letters of all partitions, in order: those of partitions that this process owns as
// they are now, and the others as reported by their owners. It returns an error if an owner does not answer
// before ctx ends.
func (a *App[P]) Quarantine(ctx context.Context) ([]Letter, error) { return a.made().quarantine(ctx) }

func (c *core) quarantine(ctx context.Context) ([]Letter, error) {
	if ctx == nil {
		engine.NilContext("durable.App.Quarantine")
	}
	var all []Letter
	for p, pg := range c.gateway.partitions {
		letters, err := c.letters(ctx, p, pg)
		if err != nil {
			return all, err
		}
		all = append(all, letters...)
	}
	return all, nil
}

func (c *core) letters(ctx context.Context, p int, pg *partitionGateway) ([]Letter, error) {
	for c.peers != nil && !pg.isOwned() {
		answer, err := c.peers.ask(ctx, p, []byte{askLetters})
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("durable: the owner of partition %d does not say what it has in quarantine: %w", p, context.Cause(ctx))
		case answer[0] == answerEntry:
			var letters []Letter
			return letters, CBOR().Decode(answer[1:], &letters)
		}
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	return slices.Clone(pg.letters), nil
}

// Retry has the program handle a letter and then the records that wait behind it, in their order. If the program
// still cannot handle one of them, the letter stays. Retry returns when the result is durable: nil,
// [ErrNoLetter], a [*QuarantinedError] if the letter stays, or the cause of the end of ctx.
func (a *App[P]) Retry(ctx context.Context, partition int, id uint64) error {
	return a.made().sendInstruction(ctx, "durable.App.Retry", partition, logdriven.RetryRecord(id))
}

// Drop forgets a letter, and has the program handle the records that wait behind it, in their order. If the
// program cannot handle one of them, that record and those behind it stay under the same ID, as may those before
// it, which are handled in the same attempt. Drop then returns a [*QuarantinedError]. It returns when [App.Retry]
// would.
//
// If the letter is an asynchronous call or the answer of one, Drop forgets the call: it never has an answer.
func (a *App[P]) Drop(ctx context.Context, partition int, id uint64) error {
	return a.made().sendInstruction(ctx, "durable.App.Drop", partition, logdriven.DropRecord(id))
}

// sendInstruction sends a partition an instruction for its quarantine.
func (c *core) sendInstruction(ctx context.Context, op string, p int, r codec.Record) error {
	if ctx == nil {
		engine.NilContext(op)
	}
	if p < 0 || p >= len(c.gateway.partitions) {
		return fmt.Errorf("%w: there is no partition %d, only %d of them", ErrNoLetter, p, len(c.gateway.partitions))
	}
	r.Nonce = c.gateway.nonce()
	pg := c.gateway.partitions[p]
	if err := pg.failure(); err != nil {
		return err
	}
	vs := pg.awaitResults([]uint64{r.Nonce})
	defer pg.forgetResults(vs)
	at, err := c.counted(ctx, p, false, c.gateway.keep, [][]byte{r.Encode(nil)}) // even while the partition takes nothing else
	if err != nil {
		return err
	}
	known, err := c.gateway.results(ctx, p, vs, at)
	if err != nil {
		return err
	}
	if errors.Is(known[0], engine.ErrDuplicate) {
		return fmt.Errorf("%w: partition %d, number %d", ErrNoLetter, p, r.Number)
	}
	return known[0]
}

// quarantined publishes the letters of the partition after a step that changed them, and logs the records that
// the step quarantined.
func (o *owner) quarantined(s *step) {
	for _, x := range s.Skipped {
		o.metrics.quarantined.Add(1)
		o.opts.Logger.Error("a record is quarantined: the program cannot handle it", "partition", o.partition, "operator", x.Operator, "reason", x.Reason)
	}
	o.showLetters()
}

func (o *owner) showLetters() {
	location, _ := o.layout.place(o.partition)
	all := o.executor.Letters()
	letters := make([]Letter, len(all))
	for i, l := range all {
		letters[i] = Letter{
			Partition: o.partition, ID: l.ID, Location: o.facade.Location(location), Input: l.Input,
			Operator: l.Operator, Reason: l.Reason, At: time.Unix(0, o.last.clock+l.At), Key: l.Key, Behind: len(l.Records) - 1,
		}
		switch r, err := codec.DecodeRecord(l.Records[0]); {
		case err != nil:
			letters[i].Record = l.Records[0]
		case r.Kind == codec.KindHeldTimer && len(r.Key) == 0: // its time is the letter's
		case r.Kind == codec.KindHeldTimer:
			timer, _ := logdriven.DecodeHeldTimer(r.Value)
			letters[i].Record = timer[:1]
		default:
			letters[i].Record = r.Value
		}
	}
	pg := o.gateway.partitions[o.partition]
	pg.mu.Lock()
	pg.letters = letters
	pg.mu.Unlock()
}

// A trial searches for the records that a function of the program fails on. The failed step was not committed,
// and the state that the functions changed is discarded. The partition is restored and takes the messages of
// the step one by one. The records of a message that fails are tried in steps that are not committed. Then the
// message is committed without the failing records, and those are quarantined.
type trial struct {
	upTo    uint64 // the failed step had taken messages up to here
	message uint64 // the message that the program fails on; 0 until it is known
	skip    []logdriven.Skip
	known   bool // skip has the result of the last search
	most    int  // the largest number of records in skip since a step was committed
	tries   int  // since then, or since skip had more records than before

	timer *codec.Record // the record that quarantines the failing timer, or nil
	due   int64         // deadline of the timer
	held  uint64        // position of that record; 0 until it is stored
	ahead bool          // other timers fire before the record takes effect: one of them sets the failing timer

	phase   phase
	trying  *message // the message that the program works on now
	index   int      // the index of its record, in a search
	blamed  bool     // no single record is at fault
	because error    // the first failure
}

// newTrial begins a trial after a failed step, or returns nil if no function failed.
func (o *owner) newTrial(err error) *trial {
	switch n := len(o.taking); {
	case n > 1:
		return &trial{upTo: o.taking[n-1].position, because: err, phase: oneByOne, trying: &message{}}
	case n == 1:
		return &trial{upTo: o.taking[0].position, because: err, phase: oneByOne, trying: &o.taking[0]}
	case o.executor != nil && o.executor.HoldsTimers() && errors.As(err, new(*dataflow.StepError)):
		return &trial{upTo: o.last.taken, because: err, phase: firing}
	}
	return nil
}

type phase int

const (
	oneByOne  phase = iota // take messages one by one
	searching              // try the records of one message
	skipping               // take a message without the failing records
	firing                 // fire timers
)

// maxTries bounds how often a partition is restored without having found a bad record or committed a step.
const maxTries = 64

// failed notes that a function failed in a step of an owner. It reports whether there is more to try.
func (t *trial) failed(o *owner, e *dataflow.StepError) bool {
	t.tries++
	if t.tries > maxTries {
		return false
	}
	if r, due, ok := o.executor.Failing(e.Err.Error()); ok && (t.timer == nil || o.last.taken >= t.held) {
		t.timer, t.due, t.held, t.ahead = &r, due, 0, false
		t.message, t.skip, t.known, t.blamed = 0, nil, false, false
		return true
	}
	if t.blamed {
		return false
	}
	switch t.phase {
	case oneByOne:
		t.message, t.skip, t.known = t.trying.position, nil, false
	case searching:
		t.skip = append(t.skip, logdriven.Skip{
			Index: t.index, Operator: fmt.Sprintf("%s (%s)", e.Op, e.Pos), Reason: e.Err.Error(), Park: o.parks(t.trying.records[t.index], e.Key),
		})
		slices.SortFunc(t.skip, func(a, b logdriven.Skip) int { return a.Index - b.Index })
		t.known = true
		if len(t.skip) > t.most {
			t.most, t.tries = len(t.skip), 0
		}
	case skipping:
		t.known = false
	}
	return true
}

// parks reports whether later records of its key wait behind a record on which a function failed: because the function failed on
// that key, because the record is the answer of a call, of which only the first counts, or because the entry of the key can be
// forgotten: the forgetting is a record, too, which the entry must not follow.
func (o *owner) parks(record []byte, failed any) bool {
	r, err := codec.DecodeRecord(record)
	if err != nil || r.Kind == codec.KindAnswer {
		return err == nil
	}
	if len(r.Key) == 0 || r.IsToAll() {
		return false
	}
	if o.executor.Forgotten(&r) {
		return true
	}
	if failed == nil {
		return false
	}
	is, err := o.opts.Codec.Append(nil, failed)
	return err == nil && bytes.Equal(is, r.Key)
}

// try continues a trial until the partition has taken everything that the failed step had taken.
func (o *owner) try(ctx context.Context, from *source) error {
	t := o.trial
	if t != nil && t.phase == firing && t.timer == nil {
		return o.search(&message{})
	}
	for t != nil && o.last.taken < t.upTo {
		m, err := from.one(ctx)
		if err != nil {
			return o.unreadable(err)
		}
		t.trying, t.phase = &m, oneByOne
		var skip []logdriven.Skip
		if m.position == t.message {
			if !t.known {
				if err := o.search(&m); err != nil {
					return err
				}
			}
			t.phase, skip = skipping, t.skip
		}
		if err := o.step(ctx, []message{m}, skip); err != nil {
			return err
		}
		t.most, t.tries = 0, 0
		if t.timer != nil && m.position == t.held && !t.ahead && !o.executor.Held(*t.timer, o.last.now) {
			if err := o.holdLater(ctx); err != nil {
				return err
			}
		}
	}
	o.trial = nil
	return nil
}

// holdTimer quarantines the timer that a function failed on. The record that says so comes after other records,
// so the clock stops before the timer's deadline until the record is taken.
func (o *owner) holdTimer(ctx context.Context) error {
	t := o.trial
	if t == nil || t.timer == nil {
		return nil
	}
	if t.held == 0 {
		r := *t.timer
		_, why := logdriven.DecodeHeldTimer(r.Value)
		r.Op, _ = o.program.numbers.Number(r.Op)
		var at uint64
		ctx = journal.For(ctx, journal.ToSave) // no step can free space before this is stored
		if err := o.retry(ctx, "that a timer is held", func() (err error) {
			at, err = o.append(ctx, o.partition, r.Encode(nil))
			return err
		}); err != nil {
			return err
		}
		o.metrics.quarantined.Add(1)
		o.opts.Logger.Error("a timer is quarantined: the program cannot handle it", "partition", o.partition, "operator", o.executor.Location().Ops[t.timer.Op].String(), "reason", why)
		t.held, t.upTo = at, max(t.upTo, at)
	}
	clock := o.clock
	o.clock = func() int64 {
		now := clock()
		at, ok := o.executor.Deadline()
		if t.ahead {
			at = t.due
		}
		if ok && at <= now && o.last.taken < t.held {
			return max(at-1, o.last.now)
		}
		return now
	}
	return nil
}

// holdLater quarantines a failing timer that was not set yet when the record that quarantines it was taken:
// another timer, also due by now, sets it. All timers that are due before it fire first.
func (o *owner) holdLater(ctx context.Context) error {
	t := o.trial
	t.ahead, t.held = true, math.MaxUint64
	if err := o.step(ctx, nil, nil); err != nil {
		return err
	}
	t.held = 0
	return o.holdTimer(ctx)
}

// search makes a step without records, and then one for each record of a message that is not known to be bad,
// without committing them. It returns the error of the first step that fails.
func (o *owner) search(m *message) error {
	t := o.trial
	o.executor.Blame(true)
	if _, err := o.executor.Step(o.clock(), nil, nil); err != nil { // a timer or a slice failed
		t.blamed = true
		return err
	}
	o.executor.Blame(false)
	t.phase = searching
	for i := range m.records {
		if _, bad := slices.BinarySearchFunc(t.skip, i, func(s logdriven.Skip, i int) int { return s.Index - i }); bad {
			continue
		}
		t.index = i
		if _, err := o.executor.Step(o.clock(), m.records[i:i+1], nil); err != nil {
			return err
		}
	}
	t.blamed = true // only all records together fail
	return t.because
}
