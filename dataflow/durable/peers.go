package durable

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/identity"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// Peers tracks the processes that share a flow: which one owns which partition, and how to ask the owner of
// one.
type peers struct {
	*core
	member journal.Member // nil in a client

	turning sync.Mutex // held while a partition is given back, and while the owned partitions change
}

// The questions to the owner of a partition, and its answers.
const (
	askResult  = 'v' // nonce and position of each record; the results of the first ones follow each other
	askEntry   = 'e' // operator, key
	askValues  = 'w' // the current values of outputs of one value
	askLetters = 'q' // the quarantine
	askShape   = 's' // the numbers of operators

	answerLater     = 'l' // not known yet: ask again
	answerTaken     = 't'
	answerRefused   = 'r'
	answerForgotten = 'f' // the question came too late
	answerParked    = 'q' // it is in the quarantine, under the ID that follows
	answerEntry     = 'e' // the value follows
	answerHalted    = 's' // the partition has stopped; the reason follows
)

// patience is how long an owner holds a question, askWithin how long the asking process waits for the answer,
// and askAgain how long it then waits before it asks again.
const (
	patience  = time.Second
	askWithin = 2 * time.Second
	askAgain  = 20 * time.Millisecond
)

// follow owns the partitions that the membership assigns, until ctx ends.
func (ps *peers) follow(ctx context.Context) {
	owned := make(map[int]*term)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		mine, err := ps.member.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				ps.ended(fmt.Errorf("durable: membership: %w", err))
			}
			return
		}
		ps.turning.Lock()
		for _, p := range mine {
			if t := owned[p]; t == nil || t.ctx.Err() != nil {
				owned[p] = ps.begin(ctx, p, t, &all)
			}
		}
		for p, t := range owned {
			if !slices.Contains(mine, p) {
				t.end()
			}
		}
		ps.turning.Unlock()
	}
}

// A term is one period of owning a partition.
type term struct {
	ctx  context.Context
	end  context.CancelFunc
	over chan struct{}
}

// begin owns a partition, once an earlier term of it in this process is over.
func (ps *peers) begin(ctx context.Context, p int, earlier *term, all *sync.WaitGroup) *term {
	t := &term{over: make(chan struct{})}
	t.ctx, t.end = context.WithCancel(ctx)
	all.Go(func() {
		defer close(t.over)
		if earlier != nil {
			<-earlier.over
		}
		stop := func() {}
		announce := func() { // tell others that they can ask here
			unsubscribe, err := ps.shared.Answer(p, func(question []byte) []byte { return ps.answer(p, question) })
			if err != nil {
				ps.opts.Logger.Error("other processes cannot ask for a partition", "partition", p, "error", err)
				return
			}
			stop()
			stop = unsubscribe
			_ = ps.shared.Announce(p, nil) // a process that misses it asks again a little later
		}
		opened := func() {
			ps.accept(p)
			announce()
		}
		if err := ps.own(t.ctx, p, opened); err != nil && !ps.refuse(t, p, err) {
			ps.failed(p, err)
			announce() // the partition may never have been restored here
			select {
			case <-t.ctx.Done():
			case <-ps.done:
			}
		}
		stop()
		ps.gateway.closed(p)
	})
	return t
}

// listen receives announcements: that a partition has a new owner, and the reports of owners.
func (ps *peers) listen() error {
	return ps.shared.Announced(func(p int, message []byte) {
		if len(message) == 0 {
			ps.gateway.partitions[p].move()
		} else if w, ok := decodeBacklogReport(message); ok {
			ps.gateway.partitions[p].receiveReport(w)
		}
	})
}

func (ps *peers) locationOf(p int) int {
	location, _ := ps.layout.place(p)
	return location
}

// answer answers a question of another process.
func (ps *peers) answer(p int, question []byte) []byte {
	r := reader{data: question}
	ctx, cancel := context.WithTimeout(ps.ctx, patience)
	defer cancel()
	answer := []byte{answerLater}
	asked := r.byte()
	if err := ps.gateway.partitions[p].failure(); err != nil && asked != askLetters && asked != askValues {
		return append([]byte{answerHalted}, err.(*PartitionError).Err.Error()...)
	}
	switch asked {
	case askResult:
		var nonces []uint64
		var at uint64
		for !r.bad && len(r.data) > 0 {
			nonces, at = append(nonces, r.uint()), r.uint()
		}
		if !r.bad && len(nonces) > 0 {
			answer = ps.localResults(ctx, p, nonces, at)
		}
	case askEntry:
		numbers, number, location := ps.gateway.partitions[p].numbers.Load(), int32(r.uint()), ps.locationOf(p)
		if r.bad || numbers == nil {
			break
		}
		op, ok := numbers.Op(number)
		if !ok {
			break
		}
		if value, err := logdriven.Get(ps.facade, ctx, location, op, r.data); err == nil {
			answer = append([]byte{answerEntry}, value...)
		}
	case askShape:
		if numbers := ps.gateway.partitions[p].numbers.Load(); numbers != nil && ps.gateway.partitions[p].isOwned() {
			answer = append([]byte{answerEntry}, numbers.Shape().String()...)
		}
	case askLetters:
		pg := ps.gateway.partitions[p]
		pg.mu.Lock()
		letters := slices.Clone(pg.letters)
		pg.mu.Unlock()
		if encoded, err := CBOR().Append([]byte{answerEntry}, letters); err == nil {
			answer = encoded
		}
	case askValues:
		numbers := ps.gateway.partitions[p].numbers.Load()
		if numbers == nil {
			break
		}
		ps.feeding.Lock() // so that all values are as of one step
		latest := logdriven.Latest(ps.facade, ps.locationOf(p), numbers)
		ps.feeding.Unlock()
		if values, err := latest([]byte{answerEntry}); err == nil {
			answer = values
		}
	}
	return answer
}

// localResults returns the encoded results of records that are in one message: as many as are known when ctx
// ends, and answerLater for the next one.
func (ps *peers) localResults(ctx context.Context, p int, nonces []uint64, at uint64) (answer []byte) {
	pg := ps.gateway.partitions[p]
	vs := pg.awaitResults(nonces)
	defer pg.forgetResults(vs)
	pg.setPosition(vs, at)
	for _, v := range vs {
		select {
		case <-v.done:
		case <-ctx.Done():
			return append(answer, answerLater)
		}
		err := pg.outcome(p, v)
		q, parked := err.(*QuarantinedError)
		switch {
		case err == nil:
			answer = append(answer, answerTaken)
		case parked:
			answer = binary.AppendUvarint(append(answer, answerParked), q.Letter)
		case err == errForgotten:
			answer = append(answer, answerForgotten)
		default:
			answer = append(answer, answerRefused)
		}
	}
	return answer
}

// ask asks the owner of a partition. It returns answerLater if there is no answer now.
func (ps *peers) ask(ctx context.Context, p int, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	moved := ps.gateway.partitions[p].whenMoved()
	answered := make(chan struct{})
	defer close(answered)
	go func() { // the process that was asked may be gone, and another one may know
		select {
		case <-moved:
			cancel()
		case <-answered:
		}
	}()
	answer, err := ps.shared.Ask(ctx, p, question)
	switch {
	case err == nil && len(answer) > 0:
		return answer, nil
	case errors.Is(err, journal.ErrClosed):
		return nil, err
	}
	select {
	case <-time.After(askAgain):
	case <-ctx.Done():
	}
	return []byte{answerLater}, nil
}

// results asks for the results of records that are in one message. It returns those of the first records, as
// many as are known.
func (ps *peers) results(ctx context.Context, p int, vs []*recordResult, at uint64) (known []error, err error) {
	question := []byte{askResult}
	for _, v := range vs {
		question = binary.AppendUvarint(question, v.nonce)
		question = binary.AppendUvarint(question, at)
	}
	answer, err := ps.ask(ctx, p, question)
	if err != nil || ctx.Err() != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	for r := (reader{data: answer}); len(known) < len(vs); {
		switch r.byte() {
		case answerTaken:
			known = append(known, nil)
		case answerRefused:
			known = append(known, engine.ErrDuplicate)
		case answerForgotten:
			known = append(known, errForgotten)
		case answerParked:
			known = append(known, &QuarantinedError{p, r.uint()})
		case answerHalted:
			return known, unknownFate(ps.halted(p, r.data))
		default:
			return known, nil
		}
	}
	return known, nil
}

// learn returns the numbers of this program's operators in a partition's history. If this process does not know
// them, it asks the owner. A number is never reused for another operator, so an answer stays valid. It returns
// a [*PartitionError] if the partition has stopped.
func (ps *peers) learn(ctx context.Context, p int) (*logdriven.Numbers, error) {
	pg := ps.gateway.partitions[p]
	for {
		if numbers := pg.numbers.Load(); numbers != nil {
			return numbers, nil
		}
		answer, err := ps.ask(ctx, p, []byte{askShape})
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case answer[0] == answerHalted:
			return nil, ps.halted(p, answer[1:])
		case answer[0] != answerEntry: // no process has restored it yet
			select {
			case <-time.After(askAgain):
			case <-ctx.Done():
			}
			continue
		}
		was, err := parseShape(string(answer[1:]))
		if err != nil {
			return nil, err
		}
		known := identity.Known(was, ps.facade.Locations[ps.locationOf(p)], linesOf(ps.opts.Upgrade))
		numbers := logdriven.NewNumbers(known)
		numbers.Compare(was, ps.senders[ps.locationOf(p)])
		pg.numbers.CompareAndSwap(nil, numbers)
	}
}

// halted returns the error for a partition that has stopped in another process.
func (ps *peers) halted(p int, why []byte) error {
	return &PartitionError{p, ps.facade.Location(ps.locationOf(p)), errors.New(string(why))}
}

// fetch asks for an entry until it exists, and shows it to the ports. It calls stopped if the partition has
// stopped.
func (ps *peers) fetch(ctx context.Context, p int, op int32, key []byte, stopped context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if owned, turned := ps.gateway.partitions[p].ownership(); owned {
			select { // the ports show it as soon as it exists, unless the partition moves first
			case <-turned:
			case <-ctx.Done():
			}
			continue
		}
		moved := ps.gateway.partitions[p].whenMoved()
		numbers, err := ps.learn(ctx, p)
		if errors.As(err, new(*PartitionError)) {
			stopped(err)
		}
		if err != nil {
			return
		}
		if why := numbers.Misfit(op); why != "" {
			stopped(misfitError(p, why))
			return
		}
		number, ok := numbers.Number(op)
		if !ok {
			ps.opts.Logger.Error("the history has no such output yet: another program runs it", "partition", p, "output", ps.senders[ps.locationOf(p)][op].Identity)
			select {
			case <-moved:
				continue
			case <-ctx.Done():
				return
			}
		}
		answer, err := ps.ask(ctx, p, append(binary.AppendUvarint([]byte{askEntry}, uint64(number)), key...))
		if err != nil {
			return
		}
		if answer[0] == answerHalted {
			stopped(ps.halted(p, answer[1:]))
			return
		}
		if answer[0] == answerEntry {
			ps.feeding.Lock()
			err := logdriven.FeedEntry(ps.facade, ps.locationOf(p), op, key, answer[1:])
			ps.feeding.Unlock()
			if err != nil {
				ps.opts.Logger.Error("an entry of another process cannot be read", "error", err)
			}
			return
		}
	}
}

// leave hands this process's partitions to the others at once.
func (ps *peers) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ps.ctx), askWithin)
	defer cancel()
	if err := ps.member.Leave(ctx); err != nil {
		ps.opts.Logger.Warn("left without telling the others", "error", err)
	}
}
