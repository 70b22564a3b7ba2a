package callback

import (
	"errors"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

// MaxExcess is how many messages of one tool server that exceed their bounds are read at once.
const MaxExcess = 4

// ExcessRate is how many bytes a second of such messages are read, in each of these slots.
const ExcessRate = 16 << 20

// classOf returns the class of a message, by its effect on its call.
func (p *posted) classOf(m *decoded) quota.Class {
	if m.message == nil {
		kind := ""
		if me, ok := errors.AsType[*agentproto.MessageError](m.err); ok {
			kind = me.Message
		}
		if p.resolves(kind) {
			return quota.Settles
		}
		return quota.Ordinary
	}
	switch m := m.message.(type) {
	case *agentproto.ToolResult:
		return quota.Settles
	case *agentproto.OAuth, *agentproto.UserChoice:
		return quota.Detours
	case *agentproto.SubscriptionEvent:
		if m.Final {
			return quota.Ends
		}
	}
	return quota.Ordinary
}

// exempt makes an exception for a message of a class, if possible. The message is charged to the buckets all the same.
func (p *posted) exempt(kind quota.Class) bool {
	now := time.Now()
	if kind == quota.Ordinary || !p.e.Accounts.Except(p.capability, kind, now) {
		return false
	}
	p.spent = kind
	p.e.Accounts.Owe(p.capability, max(0, p.r.ContentLength)+quota.Overhead, now)
	return true
}

// putOff answers a message that exceeds the bounds and may be lost. An event is dropped if its tool server will not send it
// again.
func (p *posted) putOff(m *decoded) {
	event, ok := m.message.(*agentproto.SubscriptionEvent)
	switch {
	case !ok || event.Final || !p.allowed(event) || p.repeats():
		p.later(p.over)
	case p.elsewhere(&Forwarded{Body: m.data, Excess: true}):
	default:
		p.drop(m, event)
	}
}

// drop answers an event that will not be sent again, and drops it.
func (p *posted) drop(m *decoded, event *agentproto.SubscriptionEvent) {
	switch {
	case p.isOver(event):
	case len(m.data) > int(p.e.Sizes.Event):
		p.longEvent(event)
	default:
		p.leaveOut()
	}
}

// slowDown keeps the slot of a message that was read in vain, so that a flood of large messages does not use up the processor.
func (p *posted) slowDown(bytes int) {
	timer := time.NewTimer(time.Duration(bytes) * time.Second / ExcessRate)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.r.Context().Done():
	}
}
