package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// Known reports whether a call was made, and not forgotten: whether [Runtime.Await] will return its
// resolution at some time. It sees every call for which [Runtime.Call] has returned without an error,
// also in a process that shares the state, and before a crash. It returns [ErrElsewhere] for
// a call of a thread that has moved away.
//
// Of a call that this process does not know of by itself the flow is asked. Where the state
// is kept, that is a record of the history each time, until the answer is that there is one.
func (rt *Runtime) Known(ctx context.Context, key agentproto.CallKey) (bool, error) {
	if capability.CheckID("thread", key.GroupID) != nil || capability.CheckID("call", key.ID) != nil {
		return false, nil // nobody could make it
	}
	if err := rt.moves.LeftTo(key.GroupID); err != nil {
		return false, err
	}
	rt.mu.Lock()
	known := *rt.known.Get(key, time.Now())
	rt.mu.Unlock()
	if known {
		return true, nil
	}
	known, err := rt.program.Has(ctx, key)
	if err == nil && !known {
		asking, cancel := context.WithTimeout(ctx, askLasting)
		known = rt.program.AwaitLasting(asking, key)
		cancel()
	}
	if known {
		rt.knows(key)
	}
	return known, programError(err)
}

// knows notes that a call was made.
func (rt *Runtime) knows(key agentproto.CallKey) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	*rt.known.Get(key, time.Now()) = true
}

// askLasting is how long the process of a call may take to say that it lasts.
const askLasting = 50 * time.Millisecond

// A Description says where a call stands, for programs that show it to others.
type Description struct {
	Key       agentproto.CallKey
	Operation string // the tool; empty when the call is resolved
	Toolset   string // base URL of the tool server; empty if it is not known
	State     agentproto.State

	// Version grows with each change of the call's state. It is a function of the state: a restart does
	// not change it, and neither does another process of the same flow.
	Version uint64

	// Created is when the call was made. It is zero when the call is resolved, and if another process has it.
	Created time.Time
	// Changed is when something last happened to the call that this process has seen. It is zero if there was nothing.
	Changed time.Time

	Prompt     *CallPrompt            // what the user is asked; nil if that is nothing
	Progress   *CallProgress          // what the tool has said last of how far the call is; nil if this process has heard nothing
	Resolution *agentproto.Resolution // nil until the call is resolved; see [Runtime.Resolution]
}

// A CallProgress is what a tool has said of how far a call is. It is not kept over a restart: a tool says more.
type CallProgress struct {
	agentproto.Progress
	// Number tells what was said from what was said before. It grows, and across restarts it does as the clock does.
	Number uint64
}

// A CallPrompt is what the user is asked for a call. One of OAuth and Choice is set. All texts and URLs are the tool server's.
type CallPrompt struct {
	// Number counts the prompts of the call from 1 on. It names a prompt for ever: a restart does not change it.
	Number int
	Since  time.Time
	OAuth  *agentproto.OAuth // with the auth_url in clear, which is not to be kept nor logged
	Choice *agentproto.UserChoice
	// Form are the questions of Choice.Form that have no answer yet. It is empty if there is no form.
	Form form.Form

	values   int // bytes of the values of the others
	lifetime time.Duration
}

// openForm returns the questions of the form of a choice that have no answer among values.
func openForm(c *agentproto.UserChoice, values jsontext.Value) form.Form {
	if c == nil || c.Form == nil {
		return form.Form{}
	}
	f, err := form.Parse(c.Form)
	if err != nil {
		return form.Form{}
	}
	answered, err := form.Values(values)
	if values == nil || err != nil {
		return *f
	}
	return f.Without(func(name string) bool { _, ok := answered[name]; return ok })
}

// resolvedVersion is the version of a call that is resolved: no call has so many detours.
const resolvedVersion = 1 << 16

// versionOf returns the version of a pending call.
func versionOf(detours int, open bool) uint64 {
	v := 1 + 2*uint64(detours)
	if open {
		v--
	}
	return v
}

// Describe returns where a call stands. The error is [ErrUnknownCall] for a call that was never made or is forgotten, and
// [ErrElsewhere] for one of a thread that has moved away.
//
// A call whose resolution is kept here or that is pending in this process costs no record of a history. Of a call of another process
// that shares the state it is known only that it is pending, and later its resolution: Prompt is nil.
func (rt *Runtime) Describe(ctx context.Context, key agentproto.CallKey) (Description, error) {
	d := Description{Key: key}
	if capability.CheckID("thread", key.GroupID) != nil || capability.CheckID("call", key.ID) != nil {
		return d, fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrUnknownCall)
	}
	if err := rt.moves.LeftTo(key.GroupID); err != nil {
		return d, err
	}
	if events, _ := rt.trail.Of(key); len(events) > 0 {
		d.Changed = events[len(events)-1].At
	}
	if rt.resolution(&d) {
		return d, nil
	}
	if said := rt.trail.Progress(key); said != nil {
		d.Progress = &CallProgress{said.Progress, said.Number}
		if said.At.After(d.Changed) {
			d.Changed = said.At
		}
	}
	st, found, err := rt.CallStanding(ctx, key)
	switch {
	case err != nil:
		return d, programError(err)
	case found && st.State != agentproto.Completed:
		d.Operation, d.Toolset, d.State, d.Created = st.Operation, st.Toolset, st.State, st.Made
		d.Version = versionOf(st.Detours, st.Prompt != nil)
		if p := st.Prompt; p != nil {
			d.Prompt = &CallPrompt{Number: st.Detours, Since: st.Since, Choice: p.Choice, Form: openForm(p.Choice, st.Values), values: len(st.Values), lifetime: p.Lifetime}
			if p.OAuth != nil {
				if d.Prompt.OAuth, err = capability.OpenOAuth(rt.sealer, p.OAuth); err != nil {
					return d, fmt.Errorf("host: call %s: %w", quote.Text(key.String()), err)
				}
			}
		}
		return d, nil
	}
	known := found // resolved, and its resolution is on its way to this process
	if !known {
		if known, err = rt.Known(ctx, key); err != nil {
			return d, err
		}
	}
	if !known {
		return d, fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrUnknownCall)
	}
	if !rt.resolution(&d) {
		d.Version = versionOf(0, false)
	}
	return d, nil
}

// resolution describes a call that is resolved, and reports whether it is.
func (rt *Runtime) resolution(d *Description) bool {
	r, resolved := rt.program.Resolved(d.Key)
	if !resolved {
		return false
	}
	d.State, d.Version, d.Resolution, d.Toolset = agentproto.Completed, resolvedVersion, r, rt.baseOf(r.Server)
	return true
}

// Changed returns where a call stands as soon as its Version is more than after. It does not wait for changes that nobody can see
// in the version, such as a view. The errors are those of [Runtime.Describe], of ctx, and [ErrStopped]. Of a call of another process
// it sees the resolution, and no prompt.
func (rt *Runtime) Changed(ctx context.Context, key agentproto.CallKey, after uint64) (Description, error) {
	return rt.await(ctx, key, func(d Description) bool { return d.Version > after })
}

// Progressed is as [Runtime.Changed], and also returns as soon as the Progress of the call is another one than that with the number
// said, which is 0 for none. Who is slow misses progress between two others.
func (rt *Runtime) Progressed(ctx context.Context, key agentproto.CallKey, after, said uint64) (Description, error) {
	return rt.await(ctx, key, func(d Description) bool {
		return d.Version > after || d.Progress != nil && d.Progress.Number != said
	})
}

// await returns where a call stands as soon as that is what is waited for.
func (rt *Runtime) await(ctx context.Context, key agentproto.CallKey, wanted func(Description) bool) (Description, error) {
	changes, leave := rt.changes.Watch(key)
	defer leave()
	elsewhere := make(chan struct{}) // the resolution, which another process may have sent
	watched := false
	for {
		d, err := rt.Describe(ctx, key)
		if err != nil || wanted(d) {
			return d, err
		}
		if !watched {
			watched = true
			waiting, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				if _, err := rt.program.Await(waiting, key); err == nil {
					close(elsewhere)
				}
			}()
		}
		select {
		case <-changes:
		case <-elsewhere:
			elsewhere = nil // whatever is not seen yet comes as a change
		case <-rt.leaving:
			return d, ErrStopped
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	}
}

// AnswerPrompt takes the user's answer to the prompt of a call with a number: an index into its choices, or [Dismiss]. It is as
// [Runtime.Answer] for callers that have no response_url, and needs not wait until the prompt was shown. A prompt that is not
// open, and an authorization, take no answer: that is no error.
func (rt *Runtime) AnswerPrompt(ctx context.Context, key agentproto.CallKey, number, selected int) error {
	d, err := rt.Describe(ctx, key)
	if err != nil {
		return err
	}
	if d.Prompt == nil || d.Prompt.Number != number || d.Prompt.Choice == nil {
		return nil
	}
	c := d.Prompt.Choice
	if selected == Dismiss {
		selected = c.Default
	}
	if selected < 0 || selected >= len(c.Choices) {
		return fmt.Errorf("host: answer %d: %w", selected, ErrBadChoice)
	}
	err = rt.deliver(ctx, key, agentproto.Event{
		Kind: agentproto.ChoiceAnswered, Detour: c.ResponseURL, Selected: selected, Lifetime: cmp.Or(d.Prompt.lifetime, rt.opts.Timeouts.Call),
	})
	if err == nil {
		rt.trail.Note(key, "answered", choiceOf(c, selected))
	}
	return err
}

// AnswerForm takes what the user has filled in of the form of a prompt, by the names of its questions: for each an object of values,
// or nil if the user has declined it. The call goes on when each question has an answer, of which the first counts; until then those that there are
// are kept with the call. The number is that of the prompt, and 0 stands for whichever is open.
//
// Values that do not fit the form are an error that is [ErrBadChoice] and says why, and change nothing. As with [Runtime.AnswerPrompt],
// a prompt that is not open, or has no form, takes no answer. When AnswerForm returns nil, [Runtime.Describe] knows of the answer.
func (rt *Runtime) AnswerForm(ctx context.Context, key agentproto.CallKey, number int, values map[string]jsontext.Value) error {
	d, err := rt.Describe(ctx, key)
	p := d.Prompt
	if err != nil || p == nil || number != 0 && p.Number != number || p.Form.IsZero() {
		return err
	}
	whole := openForm(p.Choice, nil)
	if err := whole.Check(values); err != nil {
		return fmt.Errorf("host: %w: %w", ErrBadChoice, err)
	}
	filled, err := form.Filled(values)
	if err == nil && len(filled)+p.values > form.MaxBytes {
		err = fmt.Errorf("host: %w: the values have more than %d bytes", ErrBadChoice, form.MaxBytes)
	}
	if err != nil || len(values) == 0 {
		return err
	}
	changes, leave := rt.changes.Watch(key)
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Accept)
	defer cancel()
	err = rt.deliver(ctx, key, agentproto.Event{
		Kind: agentproto.ChoiceAnswered, Detour: p.Choice.ResponseURL, Selected: p.Choice.Default, Values: filled,
		Lifetime: cmp.Or(p.lifetime, rt.opts.Timeouts.Call),
	})
	if err != nil {
		return err
	}
	rt.trail.Note(key, "answered", "with a form")
	for {
		now, err := rt.Describe(ctx, key)
		asked := func(name string) bool { return now.Prompt.Form.Question(name) != nil }
		if err != nil || now.Prompt == nil || now.Prompt.Number != p.Number || !slices.ContainsFunc(slices.Collect(maps.Keys(values)), asked) {
			return err
		}
		select {
		case <-changes:
		case <-rt.leaving:
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
