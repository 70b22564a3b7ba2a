package callback

import (
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
)

// A tool server that has no ids for its messages does not send again what is put off: to it a 503 is the
// loss of an event that nobody hears of. Such an event is answered 200 and left out instead, and the next
// one that is taken in tells how many were. The number is in this process; that there is one is in the
// flow, before the first event of a gap is answered.

// repeats reports whether the tool server sends again what is put off, as far as is known: a message of
// this callback URL had an id, or all have to be signed, which takes one.
func (p *posted) repeats() bool {
	if p.id != "" || len(p.server.Secrets) > 0 {
		return true
	}
	return p.e.Accounts.Repeats(p.capability, time.Now())
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
	i, now := p.e.Accounts, time.Now()
	if i.LeaveOut(p.capability, now) {
		told := p.accepted(agentproto.Event{Kind: agentproto.EventsLeftOut})
		if i.Marked(p.capability, told, time.Now()); !told {
			return false
		}
	}
	p.e.Peers.Count(p.server, tally.LeftOut)
	if more, due := p.e.refusals.note(refusal{p.server.ID, leftOutStatus}, now); due {
		p.e.Log.Warn("events are left out: the tool sends more than the runtime takes", quote.Call(p.capability.Key), "toolset", p.server.Base, "others", more)
	}
	return true
}

// leftOutStatus stands for events that are left out, where refusals have a status.
const leftOutStatus = http.StatusOK

// fullPause is after which time a tool server is asked to send an event again for which its thread has no
// room.
const fullPause = 5 * time.Second

// takeEvent takes in an event, if its subscription is not over and its thread has room.
func (p *posted) takeEvent(m *agentproto.SubscriptionEvent) {
	switch {
	case p.isOver(m):
	case m.Final || !p.e.Accounts.IsFull(threadOf(m)):
		p.event(m)
	case p.repeats():
		p.later(fullPause)
	default:
		p.leaveOut()
	}
}

// isOver reports whether the subscription of an event ended a while ago. It has answered then.
func (p *posted) isOver(m *agentproto.SubscriptionEvent) bool {
	over := p.e.Subscriptions.IsOver(m.Key())
	if over {
		p.e.Peers.Count(p.server, tally.Late)
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
		p.e.Peers.Count(p.server, tally.Events)
		p.ok()
	}
}

// eventAccepted gives an event to the program, which tells of those that were left out before it. If it is
// not taken in time, it answers 503 and reports false.
func (p *posted) eventAccepted(m *agentproto.SubscriptionEvent) bool {
	i := p.e.Accounts
	n := i.TakeLeftOut(p.capability, time.Now())
	ok := p.accepted(agentproto.Event{Kind: agentproto.SubscriptionEventArrived, Subscription: m, MessageID: p.id, LeftOut: n})
	if !ok {
		i.ReturnLeftOut(p.capability, n, time.Now())
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
	reason := tooLongFor(p.e.Sizes.Event)
	if m.Final {
		end := *m
		end.Text = "[the text of this event was left out: the " + reason + "]"
		if !p.eventAccepted(&end) {
			return
		}
	} else if !p.noteLeftOut() {
		return
	}
	p.e.Peers.Count(p.server, tally.Malformed)
	p.refuse(http.StatusRequestEntityTooLarge, m.Type()+": "+reason)
}
