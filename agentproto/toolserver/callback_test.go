package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// waits returns the times between attempts, rounded down to the steps of the schedule, because up
// to a tenth is random.
func waits(attempts []received) []time.Duration {
	var ds []time.Duration
	for i := 1; i < len(attempts); i++ {
		d := attempts[i].at.Sub(attempts[i-1].at)
		for _, step := range []time.Duration{time.Hour, 32 * time.Minute, 16 * time.Minute, 8 * time.Minute, 4 * time.Minute, 2 * time.Minute, time.Minute, 30 * time.Second, 5 * time.Second, time.Second} {
			if d >= step && d < step+step/10 {
				d = step
				break
			}
		}
		ds = append(ds, d)
	}
	return ds
}

func TestC01_RetriedWithBackoff(t *testing.T) {
	for name, fault := range map[string]func() (*http.Response, error){
		"500":       func() (*http.Response, error) { return status(500), nil },
		"429":       func() (*http.Response, error) { return status(429), nil },
		"refused":   func() (*http.Response, error) { return nil, errRefusedConnection },
		"truncated": func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := newRuntime(t, toolserver.Options{})
				addTools(rt.server)
				rt.answer = func(n int, _ received) (*http.Response, error) {
					if n <= 6 {
						return fault()
					}
					return status(200), nil
				}
				rt.call("add", "c1", `{"a":1,"b":2}`)
				rt.nextResult()
				rt.close() // checks that it was delivered once
				got := waits(rt.sent())
				want := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}
				if !slices.Equal(got, want) {
					t.Errorf("waits %v, want %v", got, want)
				}
			})
		})
	}
}

func TestC01_GivenUpAtTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		rt.answer = func(int, received) (*http.Response, error) { return status(503), nil }
		start := time.Now()
		rt.call("add", "c1", `{"a":1,"b":2}`)
		rt.close()
		sent := rt.sent()
		if last := sent[len(sent)-1].at.Sub(start); last < 22*time.Hour || last > 24*time.Hour {
			t.Errorf("last attempt after %v, want about 24h", last)
		}
		for _, w := range waits(sent)[10:] {
			if w != time.Hour {
				t.Errorf("waited %v, want an hour", w)
			}
		}
		if !strings.Contains(rt.log.String(), "message not delivered") {
			t.Error("nothing is logged")
		}
	})
}

func TestC02_C07_Final(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 409, 413, 301, 302, 307, 308} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := newRuntime(t, toolserver.Options{})
				addTools(rt.server)
				rt.answer = func(int, received) (*http.Response, error) {
					return status(code, "Location", "https://evil.example/"), nil
				}
				rt.call("add", "c1", `{"a":1,"b":2}`)
				rt.close()
				if n := len(rt.sent()); n != 1 {
					t.Errorf("%d attempts", n)
				}
				log := rt.log.String()
				if !strings.Contains(log, "message not delivered") || !strings.Contains(log, fmt.Sprint(code)) {
					t.Errorf("not logged: %s", log)
				}
				if !strings.Contains(log, "https://runtime.example") || strings.Contains(log, "/rap/v1/cb") {
					t.Errorf("the log must have the origin of the callback_url and no more: %s", log)
				}
			})
		})
	}
}

func TestC04_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addTools(rt.server)
		rt.answer = func(n int, _ received) (*http.Response, error) {
			switch n {
			case 1:
				return status(503, "Retry-After", "2"), nil
			case 2:
				return status(429, "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)), nil
			case 3:
				return status(503, "Retry-After", "1"), nil // shorter than the schedule
			default:
				return status(200), nil
			}
		}
		rt.call("add", "c1", `{"a":1,"b":2}`)
		rt.nextResult()
		rt.close()
		sent := rt.sent()
		for i, want := range []time.Duration{2 * time.Second, 58 * time.Second, 30 * time.Second} {
			if got := sent[i+1].at.Sub(sent[i].at); got < want {
				t.Errorf("attempt %d came after %v, want %v at least", i+2, got, want)
			}
		}
	})
}

func TestC05_SameWebhookID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{CallbackTimeout: 15 * time.Second})
		addTools(rt.server)
		rt.answer = func(n int, _ received) (*http.Response, error) {
			if n == 1 {
				return nil, nil // received, but not answered
			}
			return status(200), nil
		}
		start := time.Now()
		rt.call("add", "c1", `{"a":1,"b":2}`)
		m := rt.next()
		if d := time.Since(start); d < 16*time.Second || d > 17*time.Second {
			t.Errorf("delivered after %v", d)
		}
		sent := rt.sent()
		if len(sent) != 2 || sent[0].id != m.id || sent[0].body != m.body || !strings.HasPrefix(m.id, "msg_") {
			t.Errorf("attempts differ: %v", sent)
		}
		rt.call("add", "c2", `{"a":1,"b":2}`)
		if other := rt.next(); other.id == m.id {
			t.Error("two messages have the same webhook-id")
		}
		rt.close()
	})
}

func TestC06_Gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var err error
		toolserver.Add(rt.server, "ask", "Asks.", func(ctx context.Context, _ none) (string, error) {
			_, err = toolserver.Choose(ctx, "Which?", []string{"a"}, 0)
			return "not wanted", nil
		})
		rt.answer = func(int, received) (*http.Response, error) { return status(410), nil }
		rt.call("ask", "c1", "{}")
		rt.close()
		if n := len(rt.sent()); n != 1 {
			t.Errorf("%d attempts, want the question alone", n)
		}
		if err == nil {
			t.Error("the tool goes on")
		}
	})
}

func TestCallbacksKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "ask", "Asks twice.", func(ctx context.Context, _ none) (string, error) {
			for range 2 {
				if _, err := toolserver.Choose(ctx, "Which?", []string{"a"}, 0); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		rt.answer = func(n int, _ received) (*http.Response, error) { // every other attempt fails
			return status(200 + n%2*300), nil
		}
		rt.call("ask", "c1", "{}")
		var kinds []string
		for range 3 {
			m := rt.next()
			kinds = append(kinds, m.Type())
			if q, ok := m.Callback.(*agentproto.UserChoice); ok {
				rt.post(strings.TrimPrefix(q.ResponseURL, "https://tools.example"), `{"id":"c1","selected":0}`)
			}
		}
		if want := []string{"user_choice", "user_choice", "tool_result"}; !slices.Equal(kinds, want) {
			t.Errorf("order %v", kinds)
		}
		rt.close()
	})
}

func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "slow", "Takes a minute.", func(context.Context, none) (string, error) {
			<-time.After(time.Minute)
			return "done", nil
		})
		toolserver.Add(rt.server, "ask", "Asks.", func(ctx context.Context, _ none) (int, error) {
			return toolserver.Choose(ctx, "Which?", []string{"a"}, 0)
		})
		rt.answer = func(n int, m received) (*http.Response, error) {
			if n == 3 {
				return status(503), nil
			}
			return status(200), nil
		}
		rt.call("ask", "c0", "{}")
		rt.next()
		rt.call("slow", "c1", "{}")
		start := time.Now()
		if err := rt.server.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d < time.Minute {
			t.Errorf("closed after %v, before the call had ended", d)
		}
		if got := rt.nextResult(); got != "Error: the tool server is shutting down" {
			t.Errorf("question ended with %q", got)
		}
		if got := rt.nextResult(); got != "done" {
			t.Errorf("result %q", got)
		}
		if code := rt.invoke("slow", "c2", "{}"); code != 503 {
			t.Errorf("closed server answers %d", code)
		}
		rt.close() // a second close has no effect
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		var cause error
		toolserver.Add(rt.server, "wait", "Waits.", func(ctx context.Context, _ none) (string, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return "", cause
		})
		addNothing := func(int, received) (*http.Response, error) { return status(503), nil }
		rt.answer = addNothing
		rt.call("wait", "c1", "{}")
		rt.call("nothing", "c2", "{}")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := rt.server.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 unfinished calls") {
			t.Errorf("Close = %v", err)
		}
		synctest.Wait()
		if !errors.Is(cause, toolserver.ErrClosing) {
			t.Errorf("the function's context ended with %v", cause)
		}
	})
}
