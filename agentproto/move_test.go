package agentproto

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow/durable"
)

// movers are a source and a destination program, between which a thread moves.
type movers struct {
	t    *testing.T
	s, d *host
}

func startMovers(t *testing.T) *movers {
	m := &movers{t: t}
	m.s = startProgram(t, ProgramOptions{Forward: func(ctx context.Context, f *Forwarded) {
		for range 2 {
			if err := m.d.Relay(ctx, recode(t, f)); err != nil {
				t.Error(err)
			}
		}
	}})
	m.d = startProgram(t, ProgramOptions{Dispatch: func(_ context.Context, c *Call) DispatchOutcome {
		t.Errorf("%v is dispatched again", c.Key)
		return DispatchOutcome{}
	}})
	return m
}

func (m *movers) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// export stages the frozen thread of S at D, as bytes.
func (m *movers) export(migration string) *ThreadSnapshot {
	m.t.Helper()
	thread, err := m.s.Export(context.Background(), "thread", migration)
	m.must(err)
	again := recode(m.t, thread)
	for range 2 { // repeating the request has no effect
		m.must(m.d.Stage(context.Background(), again))
	}
	return thread
}

// recode encodes and decodes with the codec of durable flows.
func recode[T any](t *testing.T, v *T) *T {
	t.Helper()
	codec := durable.CBOR()
	if err := codec.Check(reflect.TypeFor[T]()); err != nil {
		t.Fatal(err)
	}
	data, err := codec.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	again := new(T)
	if err := codec.Decode(data, again); err != nil {
		t.Fatal(err)
	}
	second, err := codec.Append(nil, again)
	if err != nil || !slices.Equal(data, second) {
		t.Fatalf("%+v comes back as %+v, %v", v, again, err)
	}
	return again
}

// TestMove plays moves of a thread with one call. Each case lists what happens at S before the freeze,
// while frozen, between export and commit, and after the commit; what then happens at D; and the effects
// that both programs report.
func TestMove(t *testing.T) {
	send := func(e Event) func(*host) { return func(h *host) { h.deliver(k1, e) } }
	closeThread := func(h *host) {
		if err := h.CloseThread(context.Background(), "thread"); err != nil {
			h.t.Fatal(err)
		}
	}
	const half = DefaultLifetime / 2
	tests := []struct {
		name                            string
		before, frozen, exported, after []func(*host) // at S
		then                            []func(*host) // at D
		source, destination             string
	}{
		{name: "G06 a pending call", then: []func(*host){send(result("x")), send(result("x"))},
			source: "departed", destination: "resolved(tool_result) dropped(duplicate)"},
		{name: "G06 the rest of the lifetime", before: []func(*host){later(half)}, frozen: []func(*host){later(half - 2)}, then: []func(*host){later(1), send(Event{Kind: ChoiceAnswered}), later(1)},
			source: "departed", destination: "dropped(repeated) resolved(timed out) cancel"},
		{name: "G05 a result that came while it was frozen", frozen: []func(*host){send(result("x")), send(result("y"))},
			source: "departed", destination: "resolved(tool_result) dropped(duplicate)"},
		{name: "G05 a result between export and commit", exported: []func(*host){send(result("x"))},
			source: "departed", destination: "resolved(tool_result)"},
		{name: "G05 a result after the commit", after: []func(*host){send(result("x")), send(result("x"))},
			source: "departed", destination: "resolved(tool_result) dropped(duplicate)"},
		{name: "the lifetime ends while it is frozen", before: []func(*host){later(half)}, frozen: []func(*host){later(half)},
			then: []func(*host){later(1)}, source: "departed", destination: "resolved(timed out) cancel"},
		{name: "G06 a tombstone", before: []func(*host){send(result("x"))}, after: []func(*host){send(result("x"))}, then: []func(*host){send(result("x"))},
			source: "resolved(tool_result) dropped(duplicate)", destination: "dropped(duplicate)"},
		{name: "G06 a tombstone of another cause", before: []func(*host){send(Event{Kind: Interrupted})}, then: []func(*host){send(result("x"))},
			source: "resolved(interrupted) cancel", destination: "dropped(late)"},
		{name: "G06 an open authorization", before: []func(*host){send(oauth("u")), later(time.Minute)}, then: []func(*host){later(DefaultOAuthTimeout - time.Minute - 1), send(oauth("u")), later(1)},
			source: "oauth withdraw departed", destination: "oauth dropped(repeated) withdraw resolved(timed out) cancel"},
		{name: "G06 an open choice", before: []func(*host){send(choice("r")), later(time.Hour)}, then: []func(*host){later(time.Hour), send(answer1("r", 1)), later(DefaultLifetime - 1), send(result("x"))},
			source: "choice withdraw departed", destination: "choice answer(1) resolved(tool_result)"},
		{name: "a choice's default is taken at the destination", before: []func(*host){send(choice("r")), later(time.Hour)}, then: []func(*host){later(DefaultChoiceTimeout - time.Hour), later(DefaultLifetime)},
			source: "choice withdraw departed", destination: "choice withdraw answer(2) resolved(timed out) cancel"},
		{name: "the lifetime after an answer", before: []func(*host){send(choice("r")), later(time.Hour), send(answer1("r", 0)), later(half)}, then: []func(*host){later(half - 1), send(answer1("r", 0)), later(1)},
			source: "choice answer(0) departed", destination: "dropped(repeated) resolved(timed out) cancel"},
		{name: "the lifetime after a default", before: []func(*host){send(choice("r")), later(DefaultChoiceTimeout), later(half)}, then: []func(*host){later(half - 1), send(answer1("r", 0)), later(1)},
			source: "choice withdraw answer(2) departed", destination: "dropped(repeated) resolved(timed out) cancel"},
		{name: "an answer while it is frozen", before: []func(*host){send(choice("r"))}, frozen: []func(*host){send(answer1("r", 1))}, then: []func(*host){later(DefaultLifetime)},
			source: "choice withdraw departed", destination: "choice answer(1) resolved(timed out) cancel"},
		{name: "a detour that came while it was frozen has its time", frozen: []func(*host){send(oauth("u"))}, then: []func(*host){later(DefaultOAuthTimeout)},
			source: "departed", destination: "oauth withdraw resolved(timed out) cancel"},
		{name: "G06 a subscription with what it remembers", before: []func(*host){send(subscribed("x")), send(news("a", "1"))}, frozen: []func(*host){send(news("b", "2"))}, exported: []func(*host){send(news("c", "3"))}, after: []func(*host){send(news("a", "1")), send(news("d", "4"))}, then: []func(*host){send(news("b", "2")), send(final("e"))},
			source: "resolved(tool_result) event(a) departed", destination: "event(b) event(c) dropped(duplicate) event(d) dropped(duplicate) event(e) ended"},
		{name: "interrupted while it is frozen", frozen: []func(*host){send(Event{Kind: Interrupted})}, after: []func(*host){send(result("x"))},
			source: "departed", destination: "resolved(interrupted) cancel dropped(late)"},
		{name: "closed between export and commit", exported: []func(*host){closeThread}, then: []func(*host){send(result("x"))},
			source: "departed", destination: "resolved(thread closed) dropped(late)"},
		{name: "closed after the commit", after: []func(*host){closeThread, closeThread}, then: []func(*host){send(result("x"))},
			source: "departed", destination: "resolved(thread closed) dropped(late)"},
		{name: "closed while it is frozen", frozen: []func(*host){closeThread}, then: []func(*host){send(result("x"))},
			source: "departed", destination: "resolved(thread closed) dropped(late)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startMovers(t)
				do := func(h *host, all []func(*host)) {
					for _, f := range all {
						f(h)
						synctest.Wait()
					}
				}
				m.s.call(k1, func(c *Call) { c.Made = time.Now() })
				synctest.Wait()
				do(m.s, test.before)
				m.must(m.s.Freeze(t.Context(), "thread", "m"))
				frozen := m.s.story(k1)
				do(m.s, test.frozen)
				m.export("m")
				do(m.s, test.exported)
				if got := m.s.story(k1); got != frozen {
					t.Errorf("frozen, the source does %s", strings.TrimPrefix(got, frozen))
				}
				if got := m.d.story(k1); got != "" {
					t.Errorf("frozen, the destination does %s", got)
				}
				m.must(m.d.Commit(t.Context(), "thread", "m"))
				m.must(m.s.Commit(t.Context(), "thread", "m"))
				m.must(m.s.Commit(t.Context(), "thread", "m"))
				synctest.Wait()
				do(m.s, test.after)
				do(m.d, test.then)
				if got := m.s.story(k1); got != test.source {
					t.Errorf("source\ngot  %s\nwant %s", got, test.source)
				}
				if got := m.d.story(k1); got != test.destination {
					t.Errorf("destination\ngot  %s\nwant %s", got, test.destination)
				}
				m.s.stop()
				m.d.stop()
			})
		})
	}
}

// TestMoveTakenBack checks that before the commit the source can take its thread back, with what arrived
// meanwhile, and that the destination then forgets the thread.
func TestMoveTakenBack(t *testing.T) {
	for _, exported := range []bool{false, true} {
		t.Run(fmt.Sprint("exported=", exported), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startMovers(t)
				k2, k3 := CallKey{"thread", "2"}, CallKey{"thread", "3"}
				m.s.call(k1, nil)
				m.s.call(k2, nil)
				m.must(m.s.Freeze(t.Context(), "thread", "m"))
				if exported {
					m.export("m")
				}
				m.s.deliver(k1, result("x"))
				later(DefaultLifetime)(m.s)
				m.s.call(k3, nil) // in a thread that is being moved
				if exported {
					m.must(m.d.Abort(t.Context(), "thread", "m"))
				}
				m.must(m.s.Abort(t.Context(), "thread", "m"))
				m.must(m.s.Abort(t.Context(), "thread", "m"))
				synctest.Wait()
				for key, want := range map[CallKey]string{k1: "resolved(tool_result)", k2: "resolved(timed out) cancel", k3: "resolved(thread closed)"} {
					if got := m.s.story(key); got != want {
						t.Errorf("%v: got %s, want %s", key, got, want)
					}
				}
				if err := m.s.Commit(t.Context(), "thread", "m"); !errors.Is(err, ErrMove) {
					t.Errorf("committing what was taken back gives %v", err)
				}
				if len(m.d.effects) != 0 {
					t.Errorf("the destination does %+v", m.d.effects)
				}

				// The second attempt moves the state as it is now.
				m.must(m.s.Freeze(t.Context(), "thread", "n"))
				m.export("n")
				m.must(m.d.Commit(t.Context(), "thread", "n"))
				m.must(m.s.Commit(t.Context(), "thread", "n"))
				m.d.deliver(k1, result("late"))
				m.d.deliver(k2, result("late"))
				synctest.Wait()
				for key, want := range map[CallKey]string{k1: "dropped(duplicate)", k2: "dropped(late)"} {
					if got := m.d.story(key); got != want {
						t.Errorf("%v at the destination: got %s, want %s", key, got, want)
					}
				}
				if err := m.s.Abort(t.Context(), "thread", "n"); !errors.Is(err, ErrMove) {
					t.Errorf("aborting what was committed gives %v", err)
				}
				m.s.stop()
				m.d.stop()
			})
		})
	}
}

// TestMoveAndBack checks that a thread can return to its first program, and that its call resolves there once.
func TestMoveAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startMovers(t)
		m.s.call(k1, nil)
		m.must(m.s.Freeze(t.Context(), "thread", "away"))
		m.export("away")
		m.must(m.d.Commit(t.Context(), "thread", "away"))
		m.must(m.s.Commit(t.Context(), "thread", "away"))

		m.s, m.d = m.d, m.s
		m.must(m.s.Freeze(t.Context(), "thread", "back"))
		m.export("back")
		m.must(m.d.Commit(t.Context(), "thread", "back"))
		m.must(m.s.Commit(t.Context(), "thread", "back"))
		m.d.deliver(k1, result("x"))
		m.d.deliver(k1, result("x"))
		synctest.Wait()
		if got, want := m.d.story(k1), "departed resolved(tool_result) dropped(duplicate)"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if r, err := m.d.Await(t.Context(), k1); err != nil || r.Cause != ByResult {
			t.Errorf("%+v, %v", r, err)
		}
		m.s.stop()
		m.d.stop()
	})
}

// TestMoveRefused checks that a step that is invalid in the phase of a thread returns ErrMove and changes nothing.
func TestMoveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{})
		ctx := t.Context()
		h.call(k1, nil)
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrMove) {
				t.Errorf("%s gives %v", what, err)
			}
		}
		_, err := h.Export(ctx, "thread", "a")
		refused("exporting what is not frozen", err)
		refused("committing what is not frozen", h.Commit(ctx, "thread", "b"))
		refused("staging what is here", h.Stage(ctx, &ThreadSnapshot{GroupID: "thread", Migration: "c"}))
		if err := h.Freeze(ctx, "thread", "d"); err != nil {
			t.Error(err)
		}
		refused("freezing twice", h.Freeze(ctx, "thread", "e"))
		refused("aborting another migration", h.Abort(ctx, "thread", "f"))
		refused("committing what was not exported", h.Commit(ctx, "thread", "d"))
		if err := h.Abort(ctx, "thread", "d"); err != nil {
			t.Error(err)
		}
		h.deliver(k1, result("x"))
		synctest.Wait()
		if got := h.story(k1); got != "resolved(tool_result)" {
			t.Error(got)
		}
		if err := h.CloseThread(ctx, "thread"); err != nil {
			t.Error(err)
		}
		refused("staging a closed thread", h.Stage(ctx, &ThreadSnapshot{GroupID: "thread", Migration: "g"}))
		h.stop()
	})
}

// TestSnapshotOfLateCall takes a snapshot of a call whose lifetime is over, and offers a call to a thread that is in a migration.
// The test fails if the remaining time is negative, or if a call of another migration arrives.
func TestSnapshotOfLateCall(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &callState{Call: &Call{Made: now.Add(-time.Hour), Lifetime: time.Minute}}
	if c := (turn{machine{}, s, new(doing)}).snapshot(&order{Move: &move{Now: now}}); c.Remaining != 0 {
		t.Errorf("a call whose time is up has %v left", c.Remaining)
	}
	arriving := &thread{Move: handover.State{Place: handover.Staged, Transfer: "a"}, Calls: []string{"1"}}
	for migration, want := range map[string]string{"a": "", "b": "it is staged"} {
		refused := apply(arriving, &order{Key: moveKey{Migration: migration, Step: handover.Stage, ID: "2"}, Move: &move{}}, func(told) {})
		if refused != want {
			t.Errorf("a call of migration %s: %q, want %q", migration, refused, want)
		}
	}
}
