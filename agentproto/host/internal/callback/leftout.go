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

// A tool server that gives its messages no ids does not send a message again after a 503, so the event would be lost silently.
// Such an event is answered 200 and dropped instead, and the next accepted event says how many were dropped. The number is kept
// in this process. That there is a gap is recorded in the flow before the first event of the gap is answered.

// repeats reports whether the tool server sends a message again after a 503, as far as is known: a message of this callback URL
// had an id, or the server must sign its messages, which requires an id.
func (p *posted) repeats() bool {
	if p.id != "" || len(p.server.Secrets) > 0 {
		return true
	}
	return p.e.Accounts.Repeats(p.capability, time.Now())
}

// leaveOut answers a dropped event 200, unless the gap cannot be recorded in the flow.
func (p *posted) leaveOut() {
	if p.noteLeftOut() {
		p.ok()
	}
}

// noteLeftOut counts a dropped event. For the first event of a gap it records the gap in the flow; if that fails, it answers 503
// and reports false.
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

// leftOutStatus stands for dropped events in the log, where refusals have a status.
const leftOutStatus = http.StatusOK

// fullPause is the time after which a tool server is asked to send an event again if the event's thread has no room.
const fullPause = 5 * time.Second

// takeEvent accepts an event if its subscription is not over and its thread has room.
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

// isOver reports whether the subscription of an event ended a while ago. If so, it has answered the request.
func (p *posted) isOver(m *agentproto.SubscriptionEvent) bool {
	over := p.e.Subscriptions.IsOver(m.Key())
	if over {
		p.e.Peers.Count(p.server, tally.Late)
		p.refuse(http.StatusGone, "the subscription has ended")
	}
	return over
}

// threadOf returns the thread of the conversation that receives an event.
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

// eventAccepted passes an event to the program, together with the number of events dropped before it. If the event is not
// accepted in time, it answers 503 and reports false.
func (p *posted) eventAccepted(m *agentproto.SubscriptionEvent) bool {
	i := p.e.Accounts
	n := i.TakeLeftOut(p.capability, time.Now())
	ok := p.accepted(agentproto.Event{Kind: agentproto.SubscriptionEventArrived, Subscription: m, MessageID: p.id, LeftOut: n})
	if !ok {
		i.ReturnLeftOut(p.capability, n, time.Now())
	}
	return ok
}

// tooLong refuses a message that is too large for its type.
func (p *posted) tooLong(m *decoded, limit int64) {
	if event, ok := m.message.(*agentproto.SubscriptionEvent); !ok {
		p.malformed(http.StatusRequestEntityTooLarge, m.message.Type(), tooLongFor(limit))
	} else if !p.isOver(event) {
		p.longEvent(event)
	}
}

func tooLongFor(limit int64) string { return fmt.Sprintf("message is larger than %d bytes", limit) }

// longEvent refuses an event that is too large. It will not be sent again, so it is dropped; but if it is the final event, the
// subscription still ends.
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
