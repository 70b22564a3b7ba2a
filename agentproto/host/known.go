package host

import (
	"cmp"
	"context"
	"errors"
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

// Known reports whether a call was made and not forgotten, so that [Runtime.Await] will eventually return its resolution. It
// knows every call for which [Runtime.Call] has returned without an error, even one made in another process that shares the
// state, or before a crash. It returns [ErrElsewhere] for a call of a thread that has moved away.
//
// For a call that this process does not know itself, Known asks the flow. With [Options].State each such request costs a record
// of the history, until the call is found. The error is [context.DeadlineExceeded] if the flow does not answer within
// [Timeouts].Accept.
func (rt *Runtime) Known(ctx context.Context, key agentproto.CallKey) (bool, error) {
	if capability.CheckID("thread", key.GroupID) != nil || capability.CheckID("call", key.ID) != nil {
		return false, nil // such a call cannot be made
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
	known, err := rt.has(ctx, key)
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

// has asks the flow for a call. The flow has to answer within Timeouts.Accept.
func (rt *Runtime) has(ctx context.Context, key agentproto.CallKey) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Accept)
	defer cancel()
	return rt.program.Has(ctx, key)
}

// knows records that a call was made.
func (rt *Runtime) knows(key agentproto.CallKey) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	*rt.known.Get(key, time.Now()) = true
}

// askLasting is how long the process that has a call may take to confirm it.
const askLasting = 50 * time.Millisecond

// askElsewhere is how long the process that runs a call may take to say that the call is resolved, or that its thread has moved
// away. A process keeps neither of a call that it does not run, so it has to ask each time.
const askElsewhere = 200 * time.Millisecond

// A Description describes the state of a call, for programs that show it to others.
type Description struct {
	Key       agentproto.CallKey
	Operation string // the tool; empty after the call is resolved
	Toolset   string // base URL of the tool server; empty if unknown
	State     agentproto.State

	// Version grows with each change of the call's state. It is a function of the state: it is the same after a restart and in
	// every process of the same flow.
	Version uint64

	// Created is when the call was made. It is zero after the call is resolved, and for a call of another process.
	Created time.Time
	// Changed is when this process last saw something happen to the call. It is zero if it saw nothing.
	Changed time.Time

	Prompt     *CallPrompt            // what the user is asked; nil for nothing
	Progress   *CallProgress          // the tool's last progress report; nil if this process has received none
	Resolution *agentproto.Resolution // nil until the call is resolved; see [Runtime.Resolution]

	remote bool // the call is pending, and this process does not run it
}

// A CallProgress is a tool's report of the progress of a call. It does not survive a restart; the tool will report again.
type CallProgress struct {
	agentproto.Progress
	// Number distinguishes one report from the earlier ones. It grows, also across restarts as long as the clock does.
	Number uint64
}

// A CallPrompt is what a call asks its user. Either OAuth or Choice is set. All texts and URLs come from the tool server.
type CallPrompt struct {
	// Number counts the prompts of the call from 1. It identifies a prompt permanently, also after a restart.
	Number int
	Since  time.Time
	OAuth  *agentproto.OAuth // with the auth_url in the clear, which must be neither stored nor logged
	Choice *agentproto.UserChoice
	// Form are the unanswered questions of Choice.Form. It is empty if there is no form.
	Form form.Form

	values   int // size in bytes of the values of the answered questions
	lifetime time.Duration
}

// openForm returns the questions of a choice's form for which values has no answer.
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

// resolvedVersion is the version of a resolved call. It is larger than that of any pending call, because the number of detours is
// limited.
const resolvedVersion = 1 << 16

// versionOf returns the version of a pending call.
func versionOf(detours int, open bool) uint64 {
	v := 1 + 2*uint64(detours)
	if open {
		v--
	}
	return v
}

// Describe returns the state of a call. The error is [ErrUnknownCall] for a call that was never made or is forgotten, and
// [ErrElsewhere] for one of a thread that has moved away.
//
// Describe costs no record of a history for a call that is pending in this process or whose resolution this process has. For a
// call of another process that shares the state, it knows only that the call is pending, and later its resolution: Prompt is nil.
// It asks that process, for 200 ms at most; without an answer the call counts as pending.
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
	known := found // it is resolved, and its resolution has not reached this process yet
	if !known {
		if known, err = rt.Known(ctx, key); err != nil {
			return d, err
		}
	}
	if !known {
		return d, fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrUnknownCall)
	}
	if !found {
		asking, cancel := context.WithTimeout(ctx, askElsewhere)
		defer cancel()
		left := make(chan error, 1)
		go func() { left <- rt.moves.AwaitLeft(asking, key.GroupID) }()
		if r, err := rt.program.Await(asking, key); err == nil {
			rt.describe(&d, r)
			return d, nil
		}
		if err := <-left; err != nil {
			return d, err
		}
	}
	if !rt.resolution(&d) {
		d.Version, d.remote = versionOf(0, false), !found
	}
	return d, nil
}

// resolution describes a resolved call. It reports whether this process has its resolution.
func (rt *Runtime) resolution(d *Description) bool {
	r, resolved := rt.program.Resolved(d.Key)
	if resolved {
		rt.describe(d, r)
	}
	return resolved
}

// describe describes a call that is resolved.
func (rt *Runtime) describe(d *Description, r *agentproto.Resolution) {
	d.State, d.Version, d.Resolution, d.Toolset = agentproto.Completed, resolvedVersion, r, rt.baseOf(r.Server)
}

// Changed returns the state of a call as soon as its Version is greater than after. It does not wait for changes that do not
// affect the version, such as a view. The errors are those of [Runtime.Describe], that of ctx, and [ErrStopped]. For a call of
// another process it sees the resolution but no prompt.
func (rt *Runtime) Changed(ctx context.Context, key agentproto.CallKey, after uint64) (Description, error) {
	return rt.await(ctx, key, func(d Description) bool { return d.Version > after })
}

// Progressed is like [Runtime.Changed], but also returns as soon as the call has a Progress whose number is not said; a said of 0
// means none. A slow caller misses intermediate reports.
func (rt *Runtime) Progressed(ctx context.Context, key agentproto.CallKey, after, said uint64) (Description, error) {
	return rt.await(ctx, key, func(d Description) bool {
		return d.Version > after || d.Progress != nil && d.Progress.Number != said
	})
}

// await returns the state of a call as soon as wanted reports true for it.
func (rt *Runtime) await(ctx context.Context, key agentproto.CallKey, wanted func(Description) bool) (Description, error) {
	changes, leave := rt.changes.Watch(key)
	defer leave()
	elsewhere := make(chan *agentproto.Resolution, 1) // the resolution, perhaps from another process
	watched := false
	for {
		d, err := rt.Describe(ctx, key)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue // the flow did not answer within Timeouts.Accept, and the caller has more time
		}
		if err != nil || wanted(d) {
			return d, err
		}
		if !watched {
			watched = true
			waiting, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				if r, err := rt.program.Await(waiting, key); err == nil {
					elsewhere <- r
				}
			}()
		}
		select {
		case <-changes:
		case r := <-elsewhere: // all other changes arrive through changes
			over := Description{Key: key, Changed: d.Changed}
			if rt.describe(&over, r); wanted(over) {
				return over, nil
			}
		case <-rt.leaving:
			return d, ErrStopped
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	}
}

// AnswerPrompt passes on the user's answer to the prompt with the given number: an index into its choices, or [Dismiss]. It is
// like [Runtime.Answer] for callers that have no response_url, and need not wait until the prompt was shown. If the prompt is not
// open, or is an authorization, AnswerPrompt does nothing and returns nil. The error is [ErrOtherProcess] if it cannot know that.
func (rt *Runtime) AnswerPrompt(ctx context.Context, key agentproto.CallKey, number, selected int) error {
	d, err := rt.Describe(ctx, key)
	if err != nil {
		return err
	}
	if d.remote {
		return fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrOtherProcess)
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

// AnswerForm passes on what the user has filled in of a prompt's form, by the names of its questions: for each an object of
// values, or nil if the user has declined it. The call goes on when each question has an answer; until then the answers are kept
// with the call. Of several answers to a question the first counts. Number is that of the prompt; 0 means the open one.
//
// Values that do not fit the form change nothing; the error then wraps [ErrBadChoice] and says why. As with
// [Runtime.AnswerPrompt], a prompt that is not open, or has no form, is left alone without an error. When AnswerForm returns nil,
// [Runtime.Describe] reflects the answer.
func (rt *Runtime) AnswerForm(ctx context.Context, key agentproto.CallKey, number int, values map[string]jsontext.Value) error {
	d, err := rt.Describe(ctx, key)
	p := d.Prompt
	if err == nil && d.remote {
		err = fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrOtherProcess)
	}
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
