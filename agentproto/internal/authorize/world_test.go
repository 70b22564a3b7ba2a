package authorize

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type server struct{ dataflow.Process }

// A token is a token in the vault.
type token struct {
	name    string
	scopes  []string
	expired bool
	refresh string // "works", "fails", "refused", or "" without a refresh token
}

func (t *token) good(a *Ask) bool {
	return t != nil && !t.expired && t.name != a.Refused && Covers(t.scopes, a.Need)
}

// A world is the environment of the flow in one schedule: the vault, a provider, and the actions of calls
// and users.
type world struct {
	s       *sim.Sim
	calls   *dataflow.KeyedInputPort[string, In]
	users   *dataflow.SharedKeyedInputPort[string, In]
	told    *dataflow.EntryOutputPort[string, Told]
	settled *dataflow.EntryOutputPort[string, Class]

	confirm   bool
	fails     Class // the class with which exchanges fail, if they do
	vault     map[string]*token
	memory    map[string]*token // not confirmed
	issued    int
	revoked   int
	exchanges map[string]int
	renewals  int
	entries   map[string]bool // codes in the vault
	left      map[string]*State
	ends      map[string]int // number of times each authorization was settled
	tokens    int            // numbers the tokens of asks
	pages     []func()       // the pages that are still to be looked at
}

func newWorld(s *sim.Sim, confirm bool) *world {
	w := &world{s: s, confirm: confirm, vault: map[string]*token{}, memory: map[string]*token{}, exchanges: map[string]int{},
		entries: map[string]bool{}, left: map[string]*State{}, ends: map[string]int{}}
	at := dataflow.At[server](s.Flow())
	calls, asks := keyedstream.Input[string, In](at, "calls")
	users, ins := keyedstream.SharedInput[string, In](at, "users")
	w.calls, w.users = calls, users
	out := machine(keyedstream.Merge(asks, ins), 100, w.do, w.look)
	w.told = output(out, "told", func(o Out) (string, Told, bool) {
		if o.Told == nil {
			return "", Told{}, false
		}
		return o.Token, *o.Told, true
	})
	w.settled = output(out, "settled", func(o Out) (string, Class, bool) {
		if o.Settled == nil {
			return "", "", false
		}
		return o.Settled.ID, o.Settled.Class, true
	})
	s.Start()
	return w
}

// output shows the first value that the steps emit for a name.
func output[V any](out said[server], name string, f func(Out) (string, V, bool)) *dataflow.EntryOutputPort[string, V] {
	var ks dataflow.KeyedStream[string, V, server, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce] = dataflow.Keyed(dataflow.FilterMap(keyedstream.Entries(out), func(e dataflow.Entry[string, Out]) (dataflow.Entry[string, V], bool) {
		k, v, ok := f(e.Value)
		return dataflow.Entry[string, V]{Key: k, Value: v}, ok
	}))
	return keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(ks, "it is said once")), name)
}

// look checks what is true between steps.
func (w *world) look(st *State, do *turn) {
	w.left[do.Key()] = st
	if do.Forgets() {
		delete(w.left, do.Key())
	}
	for _, o := range do.Emitted() {
		switch {
		case o.Settled != nil:
			w.ends[o.Settled.ID]++
		case o.Open != nil && !o.Open.Finished:
			_, a := st.find(func(a *Authorization) bool { return a.ID == o.Open.ID })
			if a == nil {
				continue // it ended in the same step
			}
			if t := w.vault[name(do.Key(), o.Open.Key)]; t.good(&Ask{Need: a.Need, Refused: a.Refused}) {
				w.s.Errorf("%s is asked for, and there is %v", a.ID, *t)
			}
		}
	}
	sum, calls := 0, map[string]bool{}
	for _, h := range st.Holders {
		under := 0
		for _, a := range h.All {
			if a.Job != 0 {
				under++
			}
			if a.Phase != Ended {
				sum++
			}
			if !a.Gone && calls[a.Call] {
				w.s.Errorf("call %s has two authorizations", a.Call)
			}
			calls[a.Call] = calls[a.Call] || !a.Gone
		}
		if under > 1 {
			w.s.Errorf("%d jobs of %v are under way", under, h.Key)
		}
	}
	if sum != st.Told || sum > maxOfRuntime {
		w.s.Errorf("%d are open, and %d were told of", sum, st.Told)
	}
}

func name(runtime string, k Key) string { return runtime + " " + k.User + " " + k.Provider }

// do performs the jobs of the vault and the provider.
func (w *world) do(_ context.Context, runtime string, j Job) Outcome {
	at := name(runtime, j.Key)
	t := w.vault[at]
	switch j.Kind {
	case Fetch:
		switch {
		case t == nil:
			return Outcome{Class: None}
		case !t.expired && t.name != j.Refused:
			return Outcome{Class: Good, Access: t.name, Scopes: t.scopes}
		case t.refresh == "" || j.Reject && t.name == j.Refused:
			delete(w.vault, at)
			return Outcome{Class: None}
		}
		w.renewals++
		switch t.refresh {
		case "fails":
			return Outcome{Class: Unrenewed}
		case "refused":
			delete(w.vault, at)
			return Outcome{Class: None}
		}
		return w.keep(at, w.issue(t.scopes))
	case Exchange:
		if !w.entries[j.Code] {
			w.s.Errorf("code %s is not there", j.Code)
		}
		if w.exchanges[j.Code]++; w.exchanges[j.Code] > 1 {
			w.s.Errorf("code %s is exchanged %d times", j.Code, w.exchanges[j.Code])
		}
		switch fresh := w.issue(j.Scopes); {
		case w.fails != "":
			return Outcome{Class: w.fails}
		case w.confirm:
			w.memory[j.ID] = fresh
			return Outcome{Class: Unconfirmed, Epoch: "e"}
		default:
			return w.keep(at, fresh)
		}
	case Keep:
		fresh := w.memory[j.ID]
		delete(w.memory, j.ID)
		if fresh == nil {
			return Outcome{Class: Lost}
		}
		return w.keep(at, fresh)
	case Discard:
		delete(w.entries, j.Code)
		delete(w.memory, j.ID)
	case Revoke:
		if t != nil {
			w.revoked++
		}
		delete(w.vault, at)
	}
	return Outcome{Class: Good}
}

func (w *world) issue(scopes []string) *token {
	w.issued++
	return &token{name: fmt.Sprint("token ", w.issued), scopes: scopes, refresh: "works"}
}

func (w *world) keep(at string, t *token) Outcome {
	w.vault[at] = t
	return Outcome{Class: Good, Access: t.name, Scopes: t.scopes}
}

// A caller is a call that needs a token.
type caller struct {
	w                  *world
	runtime, user, key string
	refused            string
	scopes             []string
	id                 string // of the authorization that it last heard of
	asked              int
	token              string
}

func (c *caller) k() Key { return Key{c.user, "idp"} }

// send asks for a token.
func (c *caller) send() {
	c.w.tokens++
	c.asked++
	c.token = fmt.Sprint("ask ", c.w.tokens)
	id := fmt.Sprint(c.key, " ", c.asked)
	c.w.s.Check(c.w.calls.Send(c.w.s.Context(), c.runtime, In{Token: c.token, Ask: &Ask{Key: c.k(), Need: c.scopes, Refused: c.refused, User: &Request{
		Call: c.key, After: c.id, ID: id, State: "state of " + id, Start: "start of " + id, Print: "p", Scopes: c.scopes, Confirm: c.w.confirm, Epoch: "e", For: 10 * time.Minute,
	}}}))
}

// hear waits for the answer.
func (c *caller) hear() Class {
	told, err := c.w.told.Await(c.w.s.Context(), c.token)
	c.w.s.Check(err)
	c.id = cmp.Or(told.ID, c.id)
	return told.Class
}

// end ends the call.
func (c *caller) end() {
	c.w.s.Check(c.w.calls.Send(c.w.s.Context(), c.runtime, In{Ended: c.key}))
}

// close closes the thread.
func (c *caller) close() {
	key := c.k()
	c.w.s.Check(c.w.calls.Send(c.w.s.Context(), c.runtime, In{Closed: &key}))
}

// redirect brings the user back; code is empty if the user refused.
func (c *caller) redirect(token, code string) {
	r := &Redirect{ID: c.id, State: "state of " + c.id, Code: code}
	if code == "" {
		r.Refused = Denied
	} else {
		c.w.entries[code] = true
	}
	c.w.pages = append(c.w.pages, func() { c.page(token, code) })
	c.w.s.Check(c.w.users.Send(c.w.s.Context(), c.runtime, In{Token: token, Redirect: r}))
}

// page waits for the page that the user is shown.
func (c *caller) page(token, code string) Class {
	told, err := c.w.told.Await(c.w.s.Context(), token)
	c.w.s.Check(err)
	if told.Class == Over && c.w.exchanges[code] == 0 {
		delete(c.w.entries, code) // another redirect was first
	}
	return told.Class
}

// outcome waits for the outcome of an authorization.
func (c *caller) outcome() Class {
	class, err := c.w.settled.Await(c.w.s.Context(), c.id)
	c.w.s.Check(err)
	return class
}

// pick answers the questions about the code as the user.
func (c *caller) pick(class Class) Class {
	token := "confirm " + c.id
	c.w.s.Check(c.w.calls.Send(c.w.s.Context(), c.runtime, In{Token: token, Confirm: &Confirm{ID: c.id, Class: class}}))
	told, err := c.w.told.Await(c.w.s.Context(), token)
	c.w.s.Check(err)
	return told.Class
}

// check reports what is wrong after all calls have ended.
func (w *world) check() {
	for _, look := range w.pages {
		look()
	}
	w.s.Quiesce()
	for runtime, st := range w.left {
		var left strings.Builder
		for _, h := range st.Holders {
			fmt.Fprintf(&left, "%v %v;", *h, h.All)
		}
		w.s.Errorf("%s is left with %s %d pauses, %d loose", runtime, &left, len(st.Pauses), st.Loose)
	}
	if len(w.entries) > 0 || len(w.memory) > 0 {
		w.s.Errorf("left in the vault are %v, in memory %v", w.entries, w.memory)
	}
	for id, n := range w.ends {
		if n > 1 {
			w.s.Errorf("%s is settled %d times", id, n)
		}
	}
}

// one fails unless a class is one of those wanted.
func (w *world) one(what string, got Class, want ...Class) {
	if !slices.Contains(want, got) {
		w.s.Errorf("%s: %s, want one of %v", what, got, want)
	}
}
