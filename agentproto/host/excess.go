package host

import (
	"errors"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// maxExcess is how many messages that exceed their bounds are read at once, of one tool
// server.
const maxExcess = 4

// excessRate is how many bytes of such messages are read in a second, in each of these
// places.
const excessRate = 16 << 20

// classOf returns what a message does to its call.
func (p *posted) classOf(data []byte) class {
	message, err := agentproto.DecodeCallback(data, p.rt.opts.Limits)
	if err != nil {
		kind := ""
		if me, ok := errors.AsType[*agentproto.MessageError](err); ok {
			kind = me.Message
		}
		if p.resolves(kind) {
			return settles
		}
		return ordinary
	}
	switch m := message.(type) {
	case *agentproto.ToolResult:
		return settles
	case *agentproto.OAuth, *agentproto.UserChoice:
		return detours
	case *agentproto.SubscriptionEvent:
		if m.Final {
			return ends
		}
	}
	return ordinary
}

// exempt makes an exception for a message of a class, if it can.
func (p *posted) exempt(kind class) bool {
	if kind == ordinary || !p.rt.intake.except(p.capability, kind) {
		return false
	}
	p.spent = kind
	return true
}

// slowDown keeps the place of a message that was read in vain, so that a flood of large ones
// does not take the processor from others.
func (p *posted) slowDown(bytes int) {
	timer := time.NewTimer(time.Duration(bytes) * time.Second / excessRate)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.r.Context().Done():
	}
}
