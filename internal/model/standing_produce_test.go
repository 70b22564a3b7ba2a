package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A sight is what a goroutine saw at an output.
type sight struct {
	by    string
	port  int
	form  form
	key   int
	value int
	index int // of an element
	ok    bool
	all   Content // of a value

	from, until  int   // the last step published when the sight began, and when it ended
	began, ended int64 // readings of a counter that all goroutines share
	asked        int   // the key of the call that made the sight, or -1
	moved        int   // the index of the element whose arrival caused the sight, or -1
}

// A form is how an output was read.
type form int

const (
	aLatest form = iota // [reading.latest]
	aGet                // also Await
	aLength
	aNext
)

// String returns the sight as failures print it.
func (x sight) String() string {
	what := [...]string{fmt.Sprint("latest is ", x.all), fmt.Sprint("entry ", x.key, " is ", x.value, ", ", x.ok), fmt.Sprint("length is ", x.value), fmt.Sprint("element ", x.index, " is ", x.key, ":", x.value)}[x.form]
	return fmt.Sprintf("%s sees at output %d that %s, after step %d and before the step after step %d is published", x.by, x.port, what, x.from, x.until)
}

// A sending is a send and its result.
type sending struct {
	send
	by           int
	accepted     []Record // of the records, in order
	refused      bool     // at least one record was refused
	began, ended int64
}

// A production is a script's run in production.
type production struct {
	*flowing
	recording dataflow.Recording
	natural   bool // the run ended by itself and was not stopped

	moments   atomic.Int64
	published atomic.Int64 // number of the last published step
	idle      atomic.Bool  // all senders are done

	mu     sync.Mutex
	sights []sight
	sent   []sending
	wrong  error // the first error found during the run

	// guarded by the run token
	last   []string // what each output showed at the last publication
	shows  []map[int]string
	looked int
}

func (r *production) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == nil {
		r.wrong = err
	}
}

// produce runs a script in production.
func produce(s *script) (r *production, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r = &production{}
	r.published.Store(-1)
	opts := s.opts
	opts.Record = &r.recording
	flow := dataflow.NewWithOptions(opts)
	r.flowing = raise(ctx, s, flow)
	for _, x := range r.reads {
		r.last = append(r.last, x.shown())
	}
	historyOf(&r.recording).Published(r.noted)
	r.inside, r.called, r.arrived = r.within, r.calling, r.arriving

	var readers, senders sync.WaitGroup
	if r.bulk != nil {
		readers.Go(func() {
			for !r.idle.Load() {
				r.bulk()
			}
		})
	}
	for i := range r.reads {
		if r.reads[i].next != nil {
			readers.Go(func() { r.drain(ctx, i) })
		}
	}
	for _, all := range s.polls {
		readers.Go(func() { r.poll(ctx, all) })
	}
	for i, all := range s.senders {
		senders.Go(func() { r.sender(i, all) })
	}
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		return nil, err
	}
	senders.Wait()
	r.idle.Store(true)
	for _, f := range r.closes {
		f()
	}
	timers := s.p.hasTimers() && !s.bubble
	switch r.natural = !timers && !s.p.has(looped) && !s.p.isOpen(); {
	case r.natural:
		err = app.Wait()
	default:
		if s.bubble {
			slept(30 * time.Hour)
		}
		err = app.Stop(ctx)
	}
	readers.Wait()
	r.clock = r.natural
	return r, errors.Join(r.wrong, err)
}

// noted records which outputs changed in a step, and that the step is published.
func (r *production) noted(step, site int) {
	if site != 0 {
		return
	}
	now := make(map[int]string)
	for i, x := range r.reads {
		if x.next != nil {
			continue
		}
		if text := x.shown(); text != r.last[i] {
			now[i], r.last[i] = text, text
		}
	}
	for len(r.shows) <= step {
		r.shows = append(r.shows, nil)
	}
	r.shows[step] = now
	r.published.Store(int64(step))
}

// within reads the outputs from within a step. They must not show the step yet.
func (r *production) within() {
	r.looked++
	if s := r.s; s.bubble && s.stall > 0 && r.looked%s.stall == 0 {
		slept(time.Duration(1+r.looked%7) * time.Hour)
	}
	spun(r.s.spin / 4)
	for i, x := range r.reads {
		if x.next != nil {
			continue
		}
		if text := x.shown(); text != r.last[i] {
			r.fail(fmt.Errorf("before the step after step %d is published, output %d shows\n%s, not\n%s", r.published.Load(), i, text, r.last[i]))
		}
	}
}

// calling reads the outputs from a call.
func (r *production) calling(k int) {
	var all []sight
	for i := range r.reads {
		all = r.look(all, "a call", i, i, k, -1)
	}
	pause{yields: 1, spins: r.s.spin}.take(false)
	r.saw(all)
}

// arriving reads the outputs from another location, at which n elements arrived before.
func (r *production) arriving(n int) {
	var all []sight
	for i := range r.reads {
		all = r.look(all, "another location", i, i, -1, n)
	}
	r.saw(all)
}

// look reads an output without waiting. It takes no lock except that of the output and
// formats no text, because it must be fast enough to observe a partial publication.
func (r *production) look(all []sight, by string, i, key, asked, moved int) []sight {
	x, at := r.reads[i], r.sight(by, i)
	at.asked, at.moved = asked, moved
	switch {
	case x.latest != nil:
		at.all = x.latest()
	case x.get != nil && key%5 == 4:
		at.form, at.value = aLength, x.length()
	case x.get != nil:
		at.form, at.key = aGet, key%12
		at.value, at.ok = x.get(at.key)
	default:
		return all
	}
	return append(all, r.ended(at))
}

// sight returns a sight that begins now.
func (r *production) sight(by string, i int) sight {
	return sight{by: by, port: i, asked: -1, moved: -1, from: int(r.published.Load()), began: r.moments.Add(1)}
}

// ended returns the sight with its end set to now.
func (r *production) ended(x sight) sight {
	x.ended, x.until = r.moments.Add(1), int(r.published.Load())
	return x
}

// saw stores the sights of a goroutine.
func (r *production) saw(all []sight) {
	r.mu.Lock()
	r.sights = append(r.sights, all...)
	r.mu.Unlock()
}

// maxSights is the number of sights after which a reader stops.
const maxSights = 1500

// poll makes the polls of a reader once. Outside of a bubble it repeats them until all
// senders are done or it has made maxSights sights. In a bubble, repeating would keep time
// from advancing.
func (r *production) poll(ctx context.Context, polls []poll) {
	var all []sight
	defer func() { r.saw(all) }()
	for round := 0; round == 0 || !r.s.bubble && !r.idle.Load() && len(all) < maxSights; round++ {
		for _, p := range polls {
			p.pause.take(r.s.bubble)
			i, j := p.port%len(r.reads), p.other%len(r.reads)
			if x := r.reads[i]; p.await && x.await != nil && round == 0 {
				at := r.sight("a reader that waited", i)
				v, err := x.await(ctx, p.key)
				if err != nil {
					if err != io.EOF {
						r.fail(fmt.Errorf("Await: %w", err))
					}
					return
				}
				at.form, at.key, at.value, at.ok = aGet, p.key, v, true
				all = append(all, r.ended(at))
			}
			if p.times == 0 {
				for j := range r.reads {
					all = r.look(all, "a reader", (i+j)%len(r.reads), p.key, -1, -1)
				}
			}
			for n := range p.times { // two outputs in turn, as fast as possible
				all = r.look(all, "a reader of two", i, p.key+n, -1, -1)
				all = r.look(all, "a reader of two", j, p.key+n, -1, -1)
			}
		}
	}
}

// drain reads a stream to its end.
func (r *production) drain(ctx context.Context, i int) {
	var all []sight
	defer func() { r.saw(all) }()
	for n := 0; ; n++ {
		at := r.sight("the reader of a stream", i)
		k, v, err := r.reads[i].next(ctx)
		if err != nil {
			if err != io.EOF {
				r.fail(fmt.Errorf("Next: %w", err))
			}
			return
		}
		at.form, at.index, at.key, at.value = aNext, n, k, v
		all = append(all, r.ended(at))
	}
}

// sender makes the sends of a sender.
func (r *production) sender(by int, all []send) {
	for _, x := range all {
		x.pause.take(r.s.bubble)
		node := x.records[0].input
		if batch := r.batches[node]; len(x.records) > 1 && batch != nil {
			var ks, vs []int
			for _, rec := range x.records {
				ks, vs = append(ks, rec.key), append(vs, rec.value)
			}
			y := sending{send: x, by: by, began: r.moments.Add(1)}
			r.wasSent(y, batch(ks, vs)...)
			continue
		}
		for _, rec := range x.records {
			y := sending{send: send{records: []Record{rec}}, by: by, began: r.moments.Add(1)}
			r.wasSent(y, r.sends[node](rec.key, rec.value))
		}
	}
}

// wasSent stores the result of each record of a sending.
func (r *production) wasSent(y sending, errs ...error) {
	y.ended = r.moments.Add(1)
	for i, err := range errs {
		switch {
		case err == nil:
			y.accepted = append(y.accepted, y.records[i])
		case errors.Is(err, dataflow.ErrDuplicateKey):
			y.refused = true
		default:
			r.fail(fmt.Errorf("Send: %w", err))
		}
	}
	r.mu.Lock()
	r.sent = append(r.sent, y)
	r.mu.Unlock()
}
