package callback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/display"
	"github.com/millrace/millrace/agentproto/host/internal/quota"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// about reports whether a key, as far as it is known, is that of the capability.
func (p *posted) about(key agentproto.CallKey) bool {
	return (key.GroupID == "" || key.GroupID == p.capability.Key.GroupID) &&
		(key.ID == "" || key.ID == p.capability.Key.ID)
}

// allowed reports whether the capability permits this message.
func (p *posted) allowed(message agentproto.Callback) bool {
	key, may := message.Key(), p.capability.Key
	switch message.(type) {
	case *agentproto.ToolResult:
		return key == may && p.capability.Allowed&capability.MayResult != 0
	case *agentproto.OAuth:
		return key == may && p.capability.Allowed&capability.MayOAuth != 0
	case *agentproto.UserChoice:
		return key == may && p.capability.Allowed&capability.MayChoice != 0
	case *agentproto.SubscriptionEvent:
		return key == may && p.capability.Allowed&capability.MayEvent != 0
	case *agentproto.ViewUpdate:
		return key.GroupID == may.GroupID && p.capability.Allowed&capability.MayView != 0
	}
	return false
}

// take passes on a valid message.
func (p *posted) take(message agentproto.Callback) {
	timeouts := p.e
	switch m := message.(type) {
	case *agentproto.ToolResult:
		p.result(m)
	case *agentproto.OAuth:
		e, err := capability.SealOAuth(p.e.Sealer, m)
		if err != nil {
			p.e.Log.Error("authorization cannot be kept", quote.Call(m.Key()), "error", err)
			p.later(time.Second)
			return
		}
		e.Timeout = timeouts.OAuth
		p.detour(e)
	case *agentproto.UserChoice:
		if err := p.e.Peers.MayUse(p.server, m.ResponseURL); err != nil {
			p.malformed(http.StatusBadRequest, m.Type(), "response_url: "+err.Error())
			return
		}
		shown, wrong := plainChoice(m)
		if wrong != "" {
			p.malformed(http.StatusBadRequest, m.Type(), wrong)
			return
		}
		p.detour(agentproto.Event{
			Kind: agentproto.ChoiceArrived, Choice: shown, Timeout: timeouts.Choice,
			Lifetime: cmp.Or(p.capability.Lifetime, timeouts.Call),
		})
	case *agentproto.ViewUpdate:
		p.view(m)
	case *agentproto.SubscriptionEvent:
		p.takeEvent(m)
	}
}

// result delivers a result. If the result opens one subscription too many, the call is resolved with an error and cancelled.
func (p *posted) result(m *agentproto.ToolResult) {
	if !m.Subscription {
		p.deliver(agentproto.Event{Kind: agentproto.ResultArrived, Result: m})
		return
	}
	if !p.e.Subscriptions.Reserve(m.Key()) {
		p.deliver(agentproto.Event{Kind: agentproto.Refused, Reason: fmt.Sprintf(
			"the thread has %d open subscriptions already; cancel one of them first", p.e.Subscriptions.Most)})
		return
	}
	if !p.accepted(agentproto.Event{Kind: agentproto.ResultArrived, Result: m}) {
		p.e.Subscriptions.Release(m.Key())
		return
	}
	p.ok()
}

// view shows a view, unless its thread is closed or its call is over: then it is late, like any other message. A call that opened
// a subscription is over when the subscription has ended.
func (p *posted) view(m *agentproto.ViewUpdate) {
	key := p.capability.Key
	if p.e.isPast(key) {
		p.e.Peers.Count(p.server, tally.Late)
		p.ok()
		return
	}
	err := p.e.Display.View(key, m)
	switch {
	case errors.Is(err, display.ErrLater):
		p.later(time.Second)
	case err != nil:
		p.malformed(http.StatusRequestEntityTooLarge, m.Type(), err.Error())
	case p.e.Flow.View(p.r.Context(), key, m) != nil:
		p.later(time.Second)
	default:
		p.e.Peers.Count(p.server, tally.Views)
		p.e.replays.note(p.replay(), time.Now())
		p.ok()
	}
}

// isPast reports whether a call and its subscription are over, as far as this process knows.
func (e *Endpoint) isPast(key agentproto.CallKey) bool {
	r, resolved := e.Flow.Resolved(key)
	return resolved && (r.Cause != agentproto.ByResult || !r.Result.Subscription || e.Subscriptions.HasEnded(key))
}

// detour is deliver for messages that must not be accepted twice, even when the detour is over by the second time. The program
// itself recognizes repeated results and events.
func (p *posted) detour(e agentproto.Event) {
	if p.accepted(e) {
		p.e.replays.note(p.replay(), time.Now())
		p.ok()
	}
}

// deliver passes an event to the program and answers 200 or 503.
func (p *posted) deliver(e agentproto.Event) {
	if p.accepted(e) {
		p.ok()
	}
}

// accepted passes an event to the program. If the program does not accept it in time, accepted answers 503 and reports false.
func (p *posted) accepted(e agentproto.Event) bool {
	err := p.keep(e)
	if errors.Is(err, journal.ErrTooLarge) && e.Kind != agentproto.Malformed {
		// It will not fit later either.
		message := ""
		if e.Kind == agentproto.SubscriptionEventArrived {
			message = agentproto.TypeSubscriptionEvent
		}
		p.malformed(http.StatusRequestEntityTooLarge, message, "message is larger than what the log of this runtime can keep")
		return false
	}
	if err != nil {
		p.e.Log.Debug("callback put off", quote.Call(p.capability.Key), "error", err)
		p.later(time.Second)
		return false
	}
	return true
}

// keep passes an event to the program when it is the tool server's turn.
func (p *posted) keep(e agentproto.Event) error {
	ctx, cancel := context.WithTimeoutCause(p.r.Context(), p.e.Accept, errBusy)
	defer cancel()
	bytes := int64(quota.Overhead)
	if e.Result != nil || e.Subscription != nil {
		bytes += p.size
	}
	done, err := p.e.turns.Wait(ctx, p.server.ID, bytes)
	if err != nil {
		return err
	}
	defer done()
	e.Incarnation = p.capability.Incarnation
	return p.e.Flow.Deliver(ctx, p.capability.Key, e)
}

// malformed refuses a message. It also resolves the call, unless a valid message of this type would have neither resolved the
// call nor advanced it.
func (p *posted) malformed(status int, message, reason string) {
	if p.resolves(message) {
		text := fmt.Sprintf("%s: %s: %s", p.server.Base, cmp.Or(message, "callback"), reason)
		if !p.accepted(agentproto.Event{Kind: agentproto.Malformed, Reason: text}) {
			return
		}
	}
	p.e.Peers.Count(p.server, tally.Malformed)
	if message != "" {
		reason = message + ": " + reason
	}
	p.refuse(status, reason)
}

// resolves reports whether a malformed message of a type, "" if unknown, resolves its call.
func (p *posted) resolves(message string) bool {
	return !p.unproven && message != agentproto.TypeViewUpdate && message != agentproto.TypeSubscriptionEvent
}

// reasonOf returns the reason of an error with the name of the member.
func reasonOf(me *agentproto.MessageError) string {
	if me.Member == "" {
		return me.Reason
	}
	return fmt.Sprintf("member %q %s", me.Member, me.Reason)
}
