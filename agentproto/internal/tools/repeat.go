package tools

import (
	"slices"

	"github.com/millrace/millrace/agentproto"
)

// A runtime may repeat an invocation: because it did not receive the acknowledgement, or because it
// has lost its state of the call and has made another callback_url for it. Every acknowledged
// invocation gets an answer (doc/protocol.md §4.6):
//
//	same callback_url    the call's own messages are the answer
//	another callback_url the call's messages go there from now on, including undelivered
//	                     ones, and the result again if it was delivered;
//	                     after the call has ended, the result is sent there once more
//	another operation, other arguments, or another user if both name one
//	                     an error result at the callback_url of that invocation, but after the
//	                     call's own result if that goes to the same address
//
// Only the runtime of the call can do this, since the runtime is part of the key. A callback_url
// that the call had before is ignored. Otherwise an invocation that was late or captured would turn
// the call back to an address at which nobody listens.

// again answers a repeated invocation of an unfinished call.
func (t step) again(c *Call, in *Invoke) Told {
	to := in.Inv.CallbackURL
	switch {
	case !in.Print.same(c.Print):
		told := t.reply(in, t.errorResult(in.Inv, textOther, "other"))
		told.Other = true
		return told
	case to == c.Address, slices.Contains(c.Before, briefOf(to)):
		return Told{}
	}
	if !c.owes() {
		r := resultOf(c.Result)
		if r == nil {
			return t.reply(in, t.errorResult(in.Inv, textNotKept, "not kept"))
		}
		m := t.result(r, "again", to)
		m.Posted = t.now
		if len(c.Queue) > 0 { // the messages before that one are delivered
			m.Number = c.Queue[0].Number - 1
		} else {
			c.Number++
			m.Number = c.Number
		}
		// A message in progress to the old address is sent to the new one, after the result.
		t.supersede(c)
		c.Queue = slices.Insert(c.Queue, 0, m)
	} else if isResult(first(c.Queue)) {
		t.supersede(c)
	}
	c.Before = append(c.Before, briefOf(c.Address))
	c.Before = slices.Delete(c.Before, 0, max(0, len(c.Before)-maxAddresses))
	c.Address = to
	if m := first(c.Queue); c.Attempt == 0 { // it has not been tried at the new address
		m.Failed, m.Wake = 0, 0
	}
	return Told{}
}

// first returns the first message of a queue, or an empty one.
func first(queue []*Message) *Message {
	if len(queue) == 0 {
		return new(Message)
	}
	return queue[0]
}

// supersede ends the attempt in progress for a call.
func (t step) supersede(c *Call) {
	t.stop(c.Attempt, CauseOther)
	c.Attempt = 0
}

// againFinished answers a repeated invocation of a finished call that is remembered.
func (t step) againFinished(f Finished, in *Invoke) Told {
	switch {
	case !f.Print.same(in.Print):
		told := t.reply(in, t.errorResult(in.Inv, textOther, "other"))
		told.Other = true
		return told
	case f.Address == briefOf(in.Inv.CallbackURL):
		return Told{}
	}
	r := resultOf(f.Result)
	if r == nil {
		return t.reply(in, t.errorResult(in.Inv, textNotKept, "not kept"))
	}
	r.CallID, r.Subscription = in.Inv.CallID, false // no event follows
	return t.reply(in, t.result(r, "finished", in.Inv.CallbackURL))
}

// resultOf decodes a stored result. It returns nil if there is none.
func resultOf(body []byte) *agentproto.ToolResult {
	if body == nil {
		return nil
	}
	m, err := agentproto.DecodeCallback(slices.Clone(body), agentproto.Limits{Bytes: maxKept + 1})
	if r, ok := m.(*agentproto.ToolResult); ok && err == nil {
		return r
	}
	return nil
}

// reply answers an invocation with a result, only once however often the invocation is repeated.
func (t step) reply(in *Invoke, m *Message) Told {
	key := replyKey(in.Call, in.Print, in.Inv.CallbackURL)
	if _, known := t.Done[key]; known || slices.ContainsFunc(t.Replies, func(r *Reply) bool { return r.Key == key }) {
		return Told{}
	}
	if len(t.Replies) >= maxReplies {
		return Told{Refused: RefusedFull}
	}
	m.Posted = t.now
	r := &Reply{Call: in.Call, Key: key, Address: in.Inv.CallbackURL, Message: m}
	t.Replies = append(t.Replies, r)
	t.do.Emit(Out{Load: r.load(1)})
	return Told{}
}

// load returns the load of a reply, or, for n = -1, its removal.
func (r *Reply) load(n int64) *LoadOf {
	return &LoadOf{r.Call.Runtime, Load{Calls: n, Busy: n, Bytes: n * (int64(len(r.Message.Body)) + messageWeight)}}
}

// turn reports whether a reply may be sent. It must not precede the result of the call with the
// same id at the same address, where it would be taken for that result.
func (t step) turn(r *Reply) bool {
	c := t.call(r.Call)
	return c == nil || c.Address != r.Address || !c.owes()
}
