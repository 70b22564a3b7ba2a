package toolserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// addMenu adds a tool that asks which dish to choose, and returns it.
func addMenu(s *toolserver.Server) {
	dishes := []string{"soup", "bread", "cheese"}
	toolserver.Add(s, "menu", "Asks for a dish.", func(ctx context.Context, _ none) (string, error) {
		i, err := toolserver.Choose(ctx, "Which dish?", dishes, 1)
		if err != nil {
			return "", err
		}
		return dishes[i], nil
	})
}

// question returns the next message, which must be a question, and the path for
// the answer.
func (rt *runtime) question() (*agentproto.UserChoice, string) {
	rt.t.Helper()
	m := rt.next()
	q, ok := m.Callback.(*agentproto.UserChoice)
	if !ok {
		rt.t.Fatalf("got %s, want a user_choice", m.body)
	}
	path, ok := strings.CutPrefix(q.ResponseURL, rt.opts.PublicURL)
	if !ok {
		rt.t.Fatalf("response_url = %s", q.ResponseURL)
	}
	return q, path
}

func TestU01_Choice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addMenu(rt.server)
		rt.call("menu", "c1", "{}", callID("x"))
		q, path := rt.question()
		if q.Prompt != "Which dish?" || fmt.Sprint(q.Choices) != "[soup bread cheese]" || q.Default != 1 || *q.CallID != "x" {
			t.Errorf("question %+v", q)
		}
		if len(path) < len("/choice/")+43 {
			t.Errorf("%q can be guessed", path)
		}
		<-time.After(20 * time.Hour)
		for _, answer := range []string{"2", "0", "2"} { // the second and third come too late
			if w := rt.post(path, `{"id":"c1","selected":`+answer+`}`); w.Code != 200 || w.Body.Len() != 0 {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
		}
		if got := rt.nextResult(); got != "cheese" {
			t.Errorf("result %q", got)
		}
		if w := rt.post(path, `{"id":"c1","selected":0}`); w.Code != 200 {
			t.Errorf("answer after the result: %d", w.Code)
		}
		rt.close()
	})
}

func TestU09_BadAnswers(t *testing.T) {
	for _, c := range []struct {
		body string
		code int
	}{
		{`{"id":"c1","selected":3}`, 400},
		{`{"id":"c1","selected":-1}`, 400},
		{`{"id":"c1","selected":"1"}`, 400},
		{`{"id":"c1","selected":1.5}`, 400},
		{`{"id":"c1","selected":1e400}`, 400},
		{`{"id":"c1","selected":9223372036854775808}`, 400},
		{`{"id":"c1"}`, 400},
		{`{"id":"c2","selected":1}`, 400},
		{`{"selected":1}`, 400},
		{`[]`, 400},
		{``, 400},
		{strings.Repeat(" ", 2<<20), 413},
	} {
		synctest.Test(t, func(t *testing.T) {
			rt := newRuntime(t, toolserver.Options{})
			addMenu(rt.server)
			rt.call("menu", "c1", "{}")
			_, path := rt.question()
			if w := rt.post(path, c.body); w.Code != c.code {
				t.Errorf("%.40s: %d, want %d", c.body, w.Code, c.code)
			}
			if got := rt.nextResult(); got != "Error: the answer is not one of the choices" {
				t.Errorf("%.40s: result %q", c.body, got)
			}
			if w := rt.post(path, `{"id":"c1","selected":1}`); w.Code != 200 {
				t.Errorf("a second answer: %d", w.Code)
			}
			rt.close()
		})
	}
}

func TestU10_ForgedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addMenu(rt.server)
		rt.call("menu", "c1", "{}")
		_, path := rt.question()
		for _, forged := range []string{"/choice/", "/choice/c1", path + "x", path[:len(path)-1], "/choice/" + strings.ToLower(path[len("/choice/"):])} {
			if w := rt.post(forged, `{"id":"c1","selected":0}`); w.Code != 404 {
				t.Errorf("%s: %d, want 404", forged, w.Code)
			}
		}
		// The signature of a notice covers its purpose, so its body cannot be replayed here.
		if w := rt.post(path, `{"id":"c1","selected":0}`, "webhook-id", "cancel_abc"); w.Code != 404 {
			t.Errorf("a message for another purpose: %d, want 404", w.Code)
		}
		rt.post(path, `{"id":"c1","selected":2}`)
		if got := rt.nextResult(); got != "cheese" {
			t.Errorf("result %q", got)
		}
		rt.close()
	})
}

func TestU11_NoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addMenu(rt.server)
		start := time.Now()
		rt.call("menu", "c1", "{}")
		_, path := rt.question()
		if got := rt.nextResult(); got != "Error: the choice was not answered in time" {
			t.Errorf("result %q", got)
		}
		if d := time.Since(start); d != 25*time.Hour {
			t.Errorf("after %v, want 25h", d)
		}
		if w := rt.post(path, `{"id":"c1","selected":2}`); w.Code != 200 {
			t.Errorf("late answer: %d", w.Code)
		}
		rt.close()
	})
}

func TestChoiceNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addMenu(rt.server)
		rt.answer = func(n int, m received) (*http.Response, error) {
			if m.Type() == agentproto.TypeUserChoice {
				return status(403), nil
			}
			return status(200), nil
		}
		start := time.Now()
		rt.call("menu", "c1", "{}")
		if got := rt.nextResult(); got != "Error: the question could not be delivered" || time.Since(start) != 0 {
			t.Errorf("result %q after %v", got, time.Since(start))
		}
		rt.close()
	})
}

func TestChoiceRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "pick", "Asks for anything.", func(ctx context.Context, in struct {
			Choices []string
			Default int
		}) (int, error) {
			return toolserver.Choose(ctx, "Which?", in.Choices, in.Default)
		})
		rt.call("pick", "c1", `{"Choices":[],"Default":0}`)
		if got := rt.nextResult(); got != "Error: there is nothing to choose from" {
			t.Errorf("result %q", got)
		}
		rt.call("pick", "c2", `{"Choices":["a"],"Default":1}`)
		if got := rt.nextResult(); got != "Error: the default is not one of the choices" {
			t.Errorf("result %q", got)
		}
		rt.close()
	})
}

// TestU08_QuestionSurvivesRestart has a tool that asks twice, and restarts the server at each moment,
// closing it with time and without. The user is asked each question once.
func TestU08_QuestionSurvivesRestart(t *testing.T) {
	t.Parallel()
	restart := func(h *house, patient bool) {
		synctest.Wait()
		if !patient {
			h.end()
		} else if err := h.server.Close(h.t.Context()); err != nil {
			h.t.Error(err)
		}
		<-time.After(time.Hour)
		h.begin()
		synctest.Wait()
	}
	for i := range 8 {
		when, patient := i/2, i%2 == 1
		t.Run(fmt.Sprint(when, " patient ", patient), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
					toolserver.Add(s, "meal", "Asks for two dishes.", func(ctx context.Context, _ none) (string, error) {
						var chosen []string
						for range 2 {
							i, err := toolserver.Choose(ctx, "Which dish?", []string{"soup", "bread", "cheese"}, 1)
							if err != nil {
								return "", err
							}
							chosen = append(chosen, fmt.Sprint(i))
						}
						return strings.Join(chosen, " "), nil
					})
				})
				if when == 0 { // before the message is delivered
					h.answer = func(n int, _ received) (*http.Response, error) {
						if n == 1 {
							return status(503), nil
						}
						return status(200), nil
					}
				}
				h.call("meal", "c1", "{}")
				if when == 0 {
					restart(h, patient)
				}
				_, path := h.question()
				if when == 1 {
					restart(h, patient)
				}
				if w := h.post(path, `{"id":"c1","selected":2}`); w.Code != 200 {
					t.Errorf("answer: %d", w.Code)
				}
				if when == 2 { // after the first answer was acknowledged
					restart(h, patient)
				}
				_, second := h.question()
				if second == path {
					t.Error("two questions have one address")
				}
				if when == 3 {
					restart(h, patient)
				}
				if w := h.post(path, `{"id":"c1","selected":0}`); w.Code != 200 { // has no effect
					t.Errorf("late answer: %d", w.Code)
				}
				h.post(second, `{"id":"c1","selected":1}`)
				if got := h.nextResult(); got != "2 1" {
					t.Errorf("result %q", got)
				}
				h.close()
			})
		})
	}
}

// TestU08_AnswerAgainAfterRestart loses the acknowledgement of an answer, and restarts the server
// while the result cannot be delivered. A runtime that repeats the answer must not be told that
// nobody asked, because it would then give up a call that is done.
func TestU08_AnswerAgainAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addMenu)
		h.answer = func(n int, _ received) (*http.Response, error) {
			if n == 2 {
				return status(503), nil // the result
			}
			return status(200), nil
		}
		h.call("menu", "c1", "{}")
		_, path := h.question()
		if w := h.post(path, `{"id":"c1","selected":2}`); w.Code != 200 {
			t.Errorf("answer: %d", w.Code)
		}
		synctest.Wait()
		h.end()
		h.begin()
		if w := h.post(path, `{"id":"c1","selected":2}`); w.Code != 200 {
			t.Errorf("the same answer after the restart: %d", w.Code)
		}
		if got := h.nextResult(); got == "" {
			t.Error("no result")
		}
		h.close()
	})
}

// TestAnswerBetweenProcesses has the answer arrive before the function asks again.
func TestAnswerBetweenProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wait := time.Duration(0)
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			toolserver.Add(s, "slow", "Asks after a while.", func(ctx context.Context, _ none) (int, error) {
				<-time.After(wait)
				return toolserver.Choose(ctx, "Which?", []string{"a", "b"}, 0)
			})
		})
		h.call("slow", "c1", "{}")
		h.call("slow", "c2", "{}")
		_, one := h.question()
		_, two := h.question()
		h.end()
		wait = time.Hour
		h.begin()
		h.post(one, `{"id":"c2","selected":1}`) // the URL is of c1 or of c2: the order is not known
		h.post(two, `{"id":"c2","selected":1}`)
		got := map[string]int{h.nextResult(): 1, h.nextResult(): 1}
		if got["1"] != 1 || got["Error: the answer is not one of the choices"] != 1 {
			t.Errorf("results %v", got)
		}
		h.close()
	})
}

// TestU11_NoAnswerAcrossRestart checks that a restart does not restart the time for the answer.
func TestU11_NoAnswerAcrossRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, addMenu)
		start := time.Now()
		h.call("menu", "c1", "{}")
		h.question()
		<-time.After(20 * time.Hour)
		h.end()
		h.begin()
		if got := h.nextResult(); got != "Error: the choice was not answered in time" || time.Since(start) > 25*time.Hour+time.Minute {
			t.Errorf("result %q after %v", got, time.Since(start))
		}
		h.close()
	})
}

// TestAskByName asks two questions with the same words, and after a restart asks the second one first. The test fails if one
// receives the answer to the other, or if a question is sent twice.
func TestAskByName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			toolserver.Add(s, "meal", "Asks for two dishes.", func(ctx context.Context, _ none) (string, error) {
				runs++
				ask := func(name string) (int, error) {
					a, err := toolserver.Ask(ctx, toolserver.Question{Name: name, Prompt: "Which dish?", Choices: []string{"soup", "bread"}})
					return a.Selected, err
				}
				if runs == 1 {
					if _, err := ask("first"); err != nil {
						return "", err
					}
				}
				second, err := ask("second")
				if err != nil {
					return "", err
				}
				first, err := ask("first")
				return fmt.Sprint(first, " ", second), err
			})
		})
		h.call("meal", "c1", "{}")
		_, path := h.question()
		h.post(path, `{"id":"c1","selected":1}`)
		_, second := h.question()
		h.end()
		<-time.After(time.Hour)
		h.begin()
		synctest.Wait()
		h.post(second, `{"id":"c1","selected":0}`)
		if got := h.nextResult(); got != "1 0" || runs != 2 {
			t.Errorf("result %q after %d runs", got, runs)
		}
		h.close()
	})
}
