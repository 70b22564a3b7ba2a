package membership

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// probesAtOnce bounds the probes of one round. If there are more members, they take turns.
const probesAtOnce = 16

// A loop is the only goroutine that uses the view. It renews, probes and looks at the clock. Everything from
// outside reaches it through Member.do.
type loop struct {
	*Member
	view *view

	renewal  uint64    // number of the last own lease that was sent
	renewAt  time.Time // when to send the next one
	inFlight bool      // a renewal has no answer yet
	abandon  func()    // ends the wait for that answer
	failing  bool      // the last renewal failed
	echoBy   time.Time // when the watch must have shown the acknowledged renewal; zero if it has

	probeAt    time.Time
	probeNext  string // the first member to probe in the next round
	again      map[string]time.Time
	connection int // number of connections so far: answers to probes of an earlier one are void

	ids         []string // members for which owners was computed
	refused     uint64   // the view's refused, as of then
	owners      []string
	refusedSent uint64 // Member.refused when the last own lease was sent
}

// run ends when the member has left, was superseded, or its connection is closed.
func (l *loop) run(ctx context.Context) {
	status := l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer l.nc.RemoveStatusListener(status)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case f := <-l.events:
			f(l.view, time.Now())
		case s := <-status:
			if s == nats.CONNECTED {
				l.connected()
			}
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		l.lapse(now)
		l.renew(now)
		l.probe(now)
		end := l.end()
		l.publish(now, end)
		if end != nil && !l.inFlight {
			return
		}
		timer.Reset(time.Until(l.next(now)))
	}
}

// end returns why this member is no longer one, or nil.
func (l *loop) end() error {
	switch {
	case l.view.superseded:
		return ErrSuperseded
	case l.leaving.Load():
		return ErrLeft
	case l.nc.IsClosed():
		return ErrClosed
	}
	return nil
}

// next returns when there is something to do even if nothing comes in.
func (l *loop) next(now time.Time) time.Time {
	at := l.renewAt
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(at) {
			at = t
		}
	}
	if l.inFlight { // the answer, or its absence, is an event
		at = now.Add(l.options.Lease)
	}
	if l.options.Probe > 0 {
		sooner(l.probeAt)
		for _, t := range l.again {
			sooner(t)
		}
	}
	sooner(l.view.until)
	sooner(l.view.resume)
	sooner(l.echoBy)
	return at
}

// connected restarts whatever a broken connection may have broken.
func (l *loop) connected() {
	l.connection++
	l.view.connected()
	clear(l.again)
	l.renewAt = time.Now()
	if l.inFlight {
		l.abandon() // its answer went to the previous connection
	}
	l.watchAnew()
}

func (l *loop) watchAnew() {
	l.echoBy = time.Time{}
	l.counters.watches.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelWatch()
}

func (l *loop) lapse(now time.Time) {
	if l.view.lapse(now) {
		l.counters.lapses.Add(1)
		l.renewAt = now // perhaps this process was merely stopped
		l.options.Logger.Warn("membership: the own lease has ended", "self", l.options.ID)
	}
}

// renew sends the next lease if it is time. It also restarts the watch if that does not show a lease that was
// acknowledged.
func (l *loop) renew(now time.Time) {
	if !l.echoBy.IsZero() && !now.Before(l.echoBy) {
		l.options.Logger.Warn("membership: the watch is stuck", "self", l.options.ID)
		l.watchAnew()
	}
	if l.inFlight || now.Before(l.renewAt) || l.end() != nil {
		return
	}
	if !l.nc.IsConnected() {
		l.renewed(0, now, nats.ErrDisconnected)
		return
	}
	l.renewal++
	n := l.renewal
	l.mu.Lock()
	refuses := l.refuses
	l.refusedSent = l.Member.refused
	l.mu.Unlock()
	value, err := json.Marshal(lease{Started: l.view.started, Renewal: n, Info: l.options.Info, Refusals: refuses})
	if err != nil {
		l.renewed(n, now, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.options.Lease/3)
	l.inFlight, l.abandon = true, cancel
	l.view.renewing(n, now)
	l.goroutines.Go(func() {
		defer cancel()
		_, err := l.js.Publish(ctx, l.subject(), value, jetstream.WithMsgTTL(l.options.Lease), jetstream.WithRetryAttempts(0))
		l.do(func(*view, time.Time) { l.renewed(n, now, err) })
	})
}

// renewed handles the result of a renewal that was sent at a time. The view takes account of a renewal only
// when it comes back through the watch.
func (l *loop) renewed(n uint64, sent time.Time, err error) {
	l.inFlight = false
	if err != nil {
		l.counters.failedRenewals.Add(1)
		if !l.failing {
			l.options.Logger.Warn("membership: renewal", "self", l.options.ID, "error", err)
		}
		l.failing = true
		if !l.renewAt.After(sent) { // else it was abandoned, and the next one is due
			l.renewAt = time.Now().Add(l.retry())
		}
		return
	}
	l.failing = false
	l.counters.renewals.Add(1)
	l.renewAt = sent.Add(l.options.Lease / 3)
	l.mu.Lock()
	if l.refusedSent != l.Member.refused { // refusals changed while it was in flight
		l.renewAt = sent
	}
	l.mu.Unlock()
	if _, missing := l.view.sent[n]; missing && l.echoBy.IsZero() {
		l.echoBy = time.Now().Add(l.patience() / 2)
	}
}

// probe asks other members whether they are alive. It does not wait: answers are events.
func (l *loop) probe(now time.Time) {
	if l.options.Probe < 0 || !l.nc.IsConnected() || l.end() != nil {
		return
	}
	for id, at := range l.again {
		if !now.Before(at) {
			delete(l.again, id)
			l.ask(id)
		}
	}
	if now.Before(l.probeAt) {
		return
	}
	l.probeAt = now.Add(l.options.Probe)
	others := l.view.others()
	first, _ := slices.BinarySearch(others, l.probeNext)
	for i := range min(len(others), probesAtOnce) {
		l.ask(others[(first+i)%len(others)])
	}
	if len(others) > 0 {
		l.probeNext = others[(first+probesAtOnce)%len(others)]
	}
}

// ask sends one probe. A failure to send is ignored, since renewals and the watch notice it.
func (l *loop) ask(id string) {
	_ = l.nc.PublishRequest(l.alive(id), l.inbox+"."+strconv.Itoa(l.connection)+"."+id, nil)
}

// answered handles an answer to a probe: the member's, or the server's that nobody listens.
func (l *loop) answered(msg *nats.Msg) {
	token := strings.Split(strings.TrimPrefix(msg.Subject, l.inbox+"."), ".")
	nobody := len(msg.Data) == 0 && msg.Header.Get("Status") == "503"
	l.do(func(v *view, now time.Time) {
		if len(token) != 2 || token[0] != strconv.Itoa(l.connection) {
			return
		}
		id := token[1]
		if !nobody {
			v.answer(id)
			return
		}
		again, suspected := v.silence(id)
		if again {
			l.again[id] = now.Add(l.options.Probe / 2)
		}
		if suspected {
			l.counters.suspicions.Add(1)
			l.options.Logger.Warn("membership: suspected", "self", l.options.ID, "member", id)
		}
	})
}

// publish makes the view available to other goroutines.
func (l *loop) publish(now time.Time, end error) {
	ids := l.view.live(now)
	moved := !slices.Equal(ids, l.ids)
	if moved {
		l.options.Logger.Info("membership: members", "self", l.options.ID, "members", ids)
	}
	if moved = moved || l.refused != l.view.refused; moved {
		l.ids, l.refused, l.owners = ids, l.view.refused, l.view.owners(ids)
	}
	s := shared{owners: l.owners, until: l.view.until, end: end}
	if _, back := l.view.sent[l.renewal]; !back {
		l.echoBy = time.Time{}
	}
	if end == nil {
		s.owned = l.view.owned(l.owners, now)
	}
	s.joined = l.view.whole && l.view.up

	l.mu.Lock()
	defer l.mu.Unlock()
	if self := l.view.peers[l.options.ID]; self != nil { // refusals that others may not know yet
		s.owned = slices.DeleteFunc(s.owned, func(p int) bool { return l.refuses.rank(p) > self.rank(p) })
	}
	before := &l.shared
	s.peers = before.peers
	if moved || end != nil {
		s.peers = nil
		for _, id := range ids {
			s.peers = append(s.peers, l.view.peers[id].public(id))
		}
	}
	if !slices.Equal(s.owned, before.owned) {
		l.counters.assignments.Add(1)
	}
	if !slices.Equal(s.owned, before.owned) || s.joined != before.joined || end != before.end {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.shared = s
}
