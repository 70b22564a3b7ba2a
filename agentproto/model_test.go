package agentproto

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// This file implements the table of doc/protocol.md §6.2 over plain values, as a reference for a Program. It is
// written from the protocol, and shares only the names of causes with the program.

// An act is something that happens to a program: an event of a call or of its thread, or the passing
// of time.
type act struct {
	Do  string
	Key CallKey
	N   int // tells addresses, choices and message ids apart
}

func (a act) String() string { return fmt.Sprintf("%s(%v, %d)", a.Do, a.Key, a.N) }

// A modelCall is the state of one call according to the protocol.
type modelCall struct {
	State      string // "", "pending", "oauth", "choice" or a cause
	Prompt     string // the address of the open prompt
	Until      time.Duration
	Detours    int
	Posted     bool // and not yet accepted or refused
	Subscribed bool
	Seen       string // message ids
	Said       string // to the conversation, the user and the tool; includes drops
}

func (c *modelCall) pending() bool {
	return c.State == "pending" || c.State == "oauth" || c.State == "choice"
}

func (c *modelCall) say(s string) { c.Said += " " + s }

func (c *modelCall) resolve(cause Cause) { c.State, c.Prompt = cause.String(), "" }

func (c *modelCall) ask(state, address string, until time.Duration) {
	if c.Detours++; c.Detours > 5 {
		c.resolve(ByMalformed)
		return
	}
	c.State, c.Prompt, c.Until = state, address, until
	c.say("asked:" + address)
}

func (c *modelCall) answer(selected int, now time.Duration) {
	c.say(fmt.Sprint("answered:", selected))
	c.State, c.Prompt, c.Until = "pending", "", now+15*time.Minute
}

// A model is a state of several calls. It is an immutable value.
type model struct {
	now    time.Duration
	calls  map[CallKey]modelCall
	closed string // names of threads
}

// after returns the state after an act.
func (m model) after(a act) model {
	m.calls = maps.Clone(m.calls)
	if d, ok := passing[a.Do]; ok {
		m.now += d
	}
	for k, c := range m.calls {
		switch {
		case a.Do == "close" && k.GroupID == a.Key.GroupID:
			if c.pending() {
				c.resolve(ByClosure)
			}
			c.Subscribed = false
		case passing[a.Do] > 0:
			for c.pending() && c.Until <= m.now {
				if c.State != "choice" {
					c.resolve(ByTimeout)
					break
				}
				c.answer(2, c.Until)
			}
		}
		m.calls[k] = c
	}
	if a.Do == "close" {
		m.closed += a.Key.GroupID
	} else if c := m.calls[a.Key]; passing[a.Do] == 0 {
		m.happen(&c, a)
		m.calls[a.Key] = c
	}
	return m
}

func (m model) happen(c *modelCall, a act) {
	address := fmt.Sprint(a.Do, a.N)
	switch {
	case a.Do == "call" || a.Do == "reject":
		if c.State != "" {
			c.say("used")
			return
		}
		c.State, c.Until, c.Posted = "pending", m.now+15*time.Minute, a.Do == "call"
		if a.Do == "reject" {
			c.resolve(ByRejection)
		} else if strings.Contains(m.closed, a.Key.GroupID) {
			c.resolve(ByClosure)
		}
	case a.Do == "refuse": // the outcome of an invocation; no effect without one
		if c.Posted && c.pending() {
			c.resolve(ByDispatch)
		}
		c.Posted = false
	case a.Do == "event" && c.Subscribed && a.N > 0 && strings.Contains(c.Seen, fmt.Sprint(a.N)):
		c.say("duplicate")
	case a.Do == "event" && c.Subscribed:
		c.Seen += fmt.Sprint(a.N)
		c.say("event")
	case a.Do == "final" && c.Subscribed:
		c.Subscribed = false
		c.say("event")
	case a.Do == "unsubscribe" && c.Subscribed:
		c.Subscribed = false
	case a.Do == "event" || a.Do == "final" || a.Do == "unsubscribe":
		c.say("unsubscribed")
	case !c.pending() && c.State == ByResult.String() && (a.Do == "result" || a.Do == "subscribed"):
		c.say("duplicate")
	case !c.pending():
		c.say("late")
	case a.Do == "result" || a.Do == "subscribed":
		c.resolve(ByResult)
		c.Subscribed = a.Do == "subscribed"
	case a.Do == "malformed":
		c.resolve(ByMalformed)
	case a.Do == "interrupt":
		c.resolve(ByInterruption)
	case a.Do == "undelivered":
		c.resolve(ByAnswerFailed)
	case c.Prompt == address:
		c.say("repeated")
	case a.Do == "oauth":
		c.ask("oauth", address, m.now+10*time.Minute)
	case a.Do == "choice":
		c.ask("choice", address, m.now+24*time.Hour)
	case c.Prompt != fmt.Sprint("choice", a.N): // an answer to a prompt that is not open
		c.say("repeated")
	case a.Do == "dismiss":
		c.answer(2, m.now)
	default:
		c.answer(a.N, m.now)
	}
}

// passing are the acts that let time pass, with their durations.
var passing = map[string]time.Duration{"minute": time.Minute, "oauthTimer": 10 * time.Minute, "lifetime": 15 * time.Minute, "choiceTimer": 24 * time.Hour}

// String returns what is visible of a state from outside.
func (m model) String() string {
	var lines []string
	for k, c := range m.calls {
		if c.State != "" || c.Said != "" {
			lines = append(lines, fmt.Sprintf("%v %s%s", k, c.State, c.Said))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
