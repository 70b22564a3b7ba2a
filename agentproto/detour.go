package agentproto

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/form"
)

// Before its result arrives, a call may send its user elsewhere: to authorize the tool, or to make a choice. See doc/protocol.md
// §5.3 and §5.4.

// open returns the open detour, or nil.
func (s *callState) open() *openDetour {
	if s.More == nil {
		return nil
	}
	return s.More.Open
}

// An openDetour is the authorization or choice that a call is waiting for.
type openDetour struct {
	ID       string // see Event.Detour
	Number   uint64 // distinguishes it from the call's other detours
	OAuth    *OAuth
	Choice   *UserChoice
	Values   jsontext.Value `json:",omitzero"` // what the user has filled in of Choice's form
	Since    time.Time
	Timeout  time.Duration
	Lifetime time.Duration // that of the event that opened it
}

// detour returns the name of the open detour, or "".
func (s *callState) detour() string {
	if open := s.open(); open != nil {
		return open.ID
	}
	return ""
}

// maxDetours bounds how many detours one call may open.
const maxDetours = 5

// detour opens a detour. It replaces the one that is open, unless that has the same id.
func (t turn) detour(e *event, state State, id string) {
	s := t.s
	if s.detour() == id {
		t.ask(Effect{Kind: Drop, State: s.State, Dropped: Repeated, Event: e.Kind})
		return
	}
	if s.Detours++; s.Detours > maxDetours {
		t.failAndCancel(ByMalformed, "the tool server asked the user for more than %d detours", maxDetours)
		return
	}
	t.withdraw()
	open := &openDetour{
		ID: id, Number: s.Call.Incarnation + uint64(s.Detours), OAuth: e.OAuth, Choice: e.Choice,
		Since: e.At, Timeout: detourTimeout(e), Lifetime: e.Lifetime,
	}
	s.State, s.more().Open = state, open
	t.arm(open.Timeout)
	t.surface(open)
}

func detourTimeout(e *event) time.Duration {
	if e.Kind == OAuthArrived {
		return cmp.Or(e.Timeout, DefaultOAuthTimeout)
	}
	return cmp.Or(e.Timeout, DefaultChoiceTimeout)
}

// surface shows the open detour to the user.
func (t turn) surface(open *openDetour) {
	s := t.s
	e := Effect{
		Kind: SurfaceOAuth, Key: s.Call.Key, State: s.State, OAuth: open.OAuth, Choice: open.Choice, Detour: open.ID, Number: open.Number,
		Server: s.Call.Server, Lifetime: open.Lifetime, Operation: s.Call.operation(),
	}
	if open.Choice != nil {
		e.Kind = PromptChoice
	}
	t.ask(e)
	if t.prompts {
		t.do.Call(request{Prompt: e.Prompt()})
	}
}

// answered passes the user's choice to the tool, once for each prompt.
func (t turn) answered(e *event) {
	s := t.s
	if s.State != ChoicePending || s.detour() != e.Detour || e.Selected < 0 || e.Selected >= len(s.open().Choice.Choices) {
		t.ask(Effect{Kind: Drop, State: s.State, Dropped: Repeated, Event: e.Kind})
		return
	}
	if e.Values == nil {
		t.goOn(e.Selected, nil, e.At, e.Lifetime)
		return
	}
	open := s.open()
	values, more, all := filled(open, e.Values)
	switch {
	case !more:
		t.ask(Effect{Kind: Drop, State: s.State, Dropped: Repeated, Event: e.Kind})
	case !all:
		open.Values = values
		t.ask(Effect{Kind: FilledIn, State: s.State, Detour: open.ID, Number: open.Number})
	default:
		t.goOn(open.Choice.Default, values, e.At, e.Lifetime)
	}
}

// filled merges values that have just arrived into those that the user gave before. For each question the first answer counts.
// More reports whether a new answer was added, and all whether every question of the form is answered.
func filled(open *openDetour, now jsontext.Value) (values jsontext.Value, more, all bool) {
	f, err := form.Parse(open.Choice.Form)
	if err != nil {
		return nil, false, false
	}
	given, err := form.Values(now)
	if err != nil || f.Check(given) != nil {
		return nil, false, false
	}
	before := map[string]jsontext.Value{}
	if open.Values != nil {
		if before, err = form.Values(open.Values); err != nil {
			return nil, false, false
		}
	}
	for name, v := range given {
		if _, known := before[name]; !known {
			before[name], more = v, true
		}
	}
	values, err = form.Filled(before)
	return values, more && err == nil && len(values) <= form.MaxBytes, len(before) == len(f.Questions)
}

// goOn lets the call wait for its result again, with a lifetime that starts at since.
func (t turn) goOn(selected int, values jsontext.Value, since time.Time, lifetime time.Duration) {
	s, open := t.s, t.s.open()
	s.State, s.More = Pending, &more{Since: since, Lifetime: lifetime}
	t.arm(cmp.Or(lifetime, t.lifetime))
	a := &Answer{Key: s.Call.Key, Number: open.Number, Choice: open.Choice, Selected: selected, Values: values, Server: s.Call.Server, Trace: s.Call.Trace}
	t.ask(Effect{
		Kind: AnswerChoice, State: Pending, Choice: a.Choice, Detour: open.ID, Number: a.Number,
		Selected: a.Selected, Values: a.Values, Server: a.Server,
	})
	if t.answers {
		t.do.Call(request{Answer: a})
	}
}

// withdraw takes back the open prompt, if any.
func (t turn) withdraw() {
	if open := t.s.open(); open != nil {
		t.ask(Effect{Kind: Withdraw, State: t.s.State, Detour: open.ID, Number: open.Number})
		t.s.More.Open = nil
	}
}
