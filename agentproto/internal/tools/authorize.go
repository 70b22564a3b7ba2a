package tools

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// Requests about authorizations pass through the session to the authorizations of its runtime. So
// these learn of the end of a call after all its requests, and no request waits for a call that has
// ended.

// AskName returns the name of a call in package authorize.
func (c CallID) AskName() string {
	d := c.Digest()
	return hex.EncodeToString(d[:])
}

// ask handles a call's request for an authorization.
func (t step) ask(in *Ask) {
	c := t.call(in.Call)
	if c == nil || c.Phase != Running || in.In.Ask == nil {
		t.do.Emit(Out{Dead: in.In.Token})
		return
	}
	c.Asks = true
	if h := (Holder{c.ID.Runtime, in.In.Ask.Key}); strings.HasPrefix(h.Key.User, authorize.ThreadPrefix) && !slices.Contains(t.Tokens, h) && len(t.Tokens) < maxTokens {
		t.Tokens = append(t.Tokens, h)
	}
	t.do.Emit(Out{Order: &Order{c.ID.Runtime, in.In}})
}

// unask reports that a call no longer needs an authorization.
func (t step) unask(c *Call) {
	if c.Asks {
		c.Asks = false
		t.do.Emit(Out{Order: &Order{c.ID.Runtime, authorize.In{Ended: c.ID.AskName()}}})
	}
}

// giveBack gives back the tokens that users have authorized for this session alone.
func (t step) giveBack() {
	for _, h := range t.Tokens {
		t.do.Emit(Out{Order: &Order{h.Runtime, authorize.In{Closed: &h.Key}}})
	}
	t.Tokens = nil
}

// authorize adds the authorizations of runtimes to the flow.
func (p *Ports) authorize(at Server, said dataflow.KeyedStream[Place, Out, Server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], o Options) {
	port, ins := keyedstream.SharedInput[string, authorize.In](at, "authorizations")
	p.Authorize = port
	orders := by(said, func(_ Place, o Out) (string, authorize.In, bool) {
		return read(o.Order).Runtime, read(o.Order).In, o.Order != nil
	})
	auth := authorize.Machine(keyedstream.Merge(ins, orders), o.Jobs, o.OAuth)

	told := keyedstream.Merge(
		by(auth, func(_ string, o authorize.Out) (string, authorize.Told, bool) {
			return o.Token, read(o.Told), o.Told != nil
		}),
		by(said, func(_ Place, o Out) (string, authorize.Told, bool) {
			return o.Dead, authorize.Told{Class: authorize.Over}, o.Dead != ""
		}))
	p.Access = once("access", told, keyedstream.Retain{For: tellFor})
	p.Settled = once("settled", by(auth, func(_ string, o authorize.Out) (string, authorize.Class, bool) {
		return read(o.Settled).ID, read(o.Settled).Class, o.Settled != nil
	}), keyedstream.Retain{For: tellFor})
	open := func(digest func(authorize.Opened) string) outs[string, authorize.Opened] {
		return by(auth, func(_ string, o authorize.Out) (string, authorize.Opened, bool) {
			return digest(read(o.Open)), read(o.Open), o.Open != nil
		})
	}
	p.Open = shown("open", keyedstream.Merge(open(func(o authorize.Opened) string { return o.State }), open(func(o authorize.Opened) string { return o.Start })),
		func(o authorize.Opened) (int, authorize.Opened) { return counts(o.Finished), o })
	p.Codes = shown("codes", by(auth, func(_ string, o authorize.Out) (string, authorize.Transit, bool) {
		return read(o.Code).Name, read(o.Code), o.Code != nil
	}), func(c authorize.Transit) (int, struct{}) { return counts(c.Over), struct{}{} })
	sum := dataflow.FoldCommutative(keyedstream.Entries(by(auth, func(_ string, o authorize.Out) (struct{}, int, bool) { return struct{}{}, o.More, o.More != 0 })),
		func() int { return 0 }, func(sum *int, e dataflow.Entry[struct{}, int]) { *sum += e.Value }, "sums of integers are the same in any order")
	p.Opens = singleton.Output(dataflow.Named("opens", sum), "opens")
}
