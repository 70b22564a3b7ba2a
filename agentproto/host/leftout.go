package host

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// A tool server that has no ids for its messages does not send again what is put off: to it a 503 is the
// loss of an event that nobody hears of. Such an event is answered 200 and left out instead, and the next
// one that is taken in tells how many were. The number is in this process; that there is one is in the
// flow, before the first event of a gap is answered.

// repeats reports whether the tool server sends again what is put off, as far as is known: a message of
// this callback URL had an id, or all have to be signed, which takes one.
func (p *posted) repeats() bool {
	if p.id != "" || len(p.server.secrets) > 0 {
		return true
	}
	i := p.rt.intake
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.url(p.capability, time.Now()).repeats
}

// noteID remembers that messages of this callback URL have ids.
func (i *intake) noteID(c capability, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.url(c, now).repeats = true
}

// leaveOut answers an event that is not taken in, unless the flow cannot be told.
func (p *posted) leaveOut() {
	if p.noteLeftOut() {
		p.ok()
	}
}

// noteLeftOut counts an event that is left out. If it is the first of a gap it tells the flow that there is
// one; if that fails it has answered 503, and reports false.
func (p *posted) noteLeftOut() bool {
	i, now := p.rt.intake, time.Now()
	if i.leaveOut(p.capability, now) {
		told := p.accepted(agentproto.Event{Kind: agentproto.EventsLeftOut})
		if i.marked(p.capability, told, time.Now()); !told {
			return false
		}
	}
	p.rt.count(p.server, nLeftOut)
	if more, due := p.rt.refusals.note(refusal{p.server.id, leftOutStatus}, now); due {
		p.rt.log.Warn("events are left out: the tool sends more than the runtime takes", keyAttr(p.capability.key), "toolset", p.server.base, "others", more)
	}
	return true
}

// leftOutStatus stands for events that are left out, where refusals have a status.
const leftOutStatus = http.StatusOK

// leaveOut counts an event that is left out, and reports whether the flow has to be told that there is a
// gap. If so, marked has to follow.
func (i *intake) leaveOut(c capability, now time.Time) (mark bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.left++
	if u.marked {
		return false
	}
	u.marking++
	return true
}

// marked says whether the flow knows of the gap now. If not, the event was not left out.
func (i *intake) marked(c capability, ok bool, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.marking = max(0, u.marking-1)
	if u.marked = u.marked || ok; !ok {
		u.left = max(0, u.left-1)
	}
}

// takeLeftOut returns how many events were left out, for the event that tells of them. While the flow is
// being told of a gap, a later event does: one that comes at the same time as what is left out is not
// behind it.
func (i *intake) takeLeftOut(c capability, now time.Time) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	if u.marking > 0 {
		return 0
	}
	n, u.left, u.marked = u.left, 0, false
	return n
}

// returnLeftOut undoes takeLeftOut, for an event that was not taken in.
func (i *intake) returnLeftOut(c capability, n int, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.left += n
	u.marked = u.marked || n > 0
}

// fullPause is after which time a tool server is asked to send an event again for which its thread has no
// room.
const fullPause = 5 * time.Second

// takeEvent takes in an event, if its subscription is not over and its thread has room.
func (p *posted) takeEvent(m *agentproto.SubscriptionEvent) {
	switch {
	case p.isOver(m):
	case m.Final || !p.rt.intake.isFull(threadOf(m)):
		p.event(m)
	case p.repeats():
		p.later(fullPause)
	default:
		p.leaveOut()
	}
}

// isOver reports whether the subscription of an event ended a while ago. It has answered then.
func (p *posted) isOver(m *agentproto.SubscriptionEvent) bool {
	over := p.rt.subscribed.isOver(m.Key())
	if over {
		p.rt.count(p.server, nLate)
		p.refuse(http.StatusGone, "the subscription has ended")
	}
	return over
}

// threadOf names the thread of a conversation that an event is for.
func threadOf(m *agentproto.SubscriptionEvent) string {
	if m.Associative {
		return m.GroupID
	}
	return conversation.ChildOf(m.GroupID, m.ToolCallID)
}

// event delivers an event.
func (p *posted) event(m *agentproto.SubscriptionEvent) {
	if p.eventAccepted(m) {
		p.rt.count(p.server, nEvents)
		p.ok()
	}
}

// eventAccepted gives an event to the program, which tells of those that were left out before it. If it is
// not taken in time, it answers 503 and reports false.
func (p *posted) eventAccepted(m *agentproto.SubscriptionEvent) bool {
	i := p.rt.intake
	n := i.takeLeftOut(p.capability, time.Now())
	ok := p.accepted(agentproto.Event{Kind: agentproto.SubscriptionEventArrived, Subscription: m, MessageID: p.id, LeftOut: n})
	if !ok {
		i.returnLeftOut(p.capability, n, time.Now())
	}
	return ok
}

// tooLong refuses a message that has too many bytes for its type.
func (p *posted) tooLong(m *decoded, limit int64) {
	if event, ok := m.message.(*agentproto.SubscriptionEvent); !ok {
		p.malformed(http.StatusRequestEntityTooLarge, m.message.Type(), tooLongFor(limit))
	} else if !p.isOver(event) {
		p.longEvent(event)
	}
}

func tooLongFor(limit int64) string { return fmt.Sprintf("message is larger than %d bytes", limit) }

// longEvent refuses an event that has too many bytes. It will not be sent again, so it is left out; but if it
// is the final one, the subscription ends all the same.
func (p *posted) longEvent(m *agentproto.SubscriptionEvent) {
	reason := tooLongFor(p.rt.opts.Bounds.Sizes.Event)
	if m.Final {
		end := *m
		end.Text = "[the text of this event was left out: the " + reason + "]"
		if !p.eventAccepted(&end) {
			return
		}
	} else if !p.noteLeftOut() {
		return
	}
	p.rt.count(p.server, nMalformed)
	p.refuse(http.StatusRequestEntityTooLarge, m.Type()+": "+reason)
}

// A fullState says whether a thread has as many events waiting as may wait, as was said last.
type fullState struct {
	number uint64
	full   bool
}

// isFull reports whether a thread has as many events waiting as may wait.
func (i *intake) isFull(thread string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.full.get(thread, time.Now()).full
}

// HoldEvents is told by a thread whose model is behind with its events.
func (h host) HoldEvents(_ context.Context, thread string, number uint64, hold bool) error {
	i := h.rt.intake
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.full.get(thread, time.Now()); number > at.number {
		*at = fullState{number, hold}
	}
	return nil
}
