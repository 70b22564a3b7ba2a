package toolserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestSendTo has a function send its user to an address, and wait in one process, in the next, and too long. The test fails if a
// restart extends the time of the user, if the function waits although no user was asked, or if an invalid address is sent.
func TestSendTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Bool
		var waits atomic.Int32
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			toolserver.Add(s, "visit", "Sends the user to an address.", func(ctx context.Context, in struct {
				At string `json:"at"`
			}) (string, error) {
				err := toolserver.SendTo(ctx, in.At, func(ctx context.Context) error {
					waits.Add(1)
					for !done.Load() {
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
							return errors.New("the waiting was given up")
						}
					}
					return nil
				})
				return "seen", err
			})
		})
		asked := func(at string) {
			t.Helper()
			if o, ok := h.next().Callback.(*agentproto.OAuth); !ok || o.AuthURL != at {
				t.Errorf("%+v does not send the user to %s", o, at)
			}
		}
		h.call("visit", "c1", `{"at":"https://shop.example/17"}`)
		asked("https://shop.example/17")
		<-time.After(4 * time.Minute)
		h.end()
		h.begin()
		asked("https://shop.example/17") // a runtime that already shows it does not show it again
		done.Store(true)
		if got := h.result(); got != "seen" || waits.Load() != 2 {
			t.Errorf("%q after %d times", got, waits.Load())
		}
		done.Store(false)
		began := time.Now()
		h.call("visit", "c2", `{"at":"https://shop.example/18"}`)
		asked("https://shop.example/18")
		<-time.After(4 * time.Minute)
		h.end()
		h.begin()
		asked("https://shop.example/18")
		if got := h.result(); got != "Error: "+toolserver.ErrNoAnswer.Error() || time.Since(began).Round(time.Minute) != 10*time.Minute {
			t.Errorf("%q after %v", got, time.Since(began))
		}
		for _, at := range []string{"http://shop.example/", "https://bank.example@shop.example/", "javascript:alert(1)", "https://shop.example/" + strings.Repeat("x", 5000)} {
			h.call("visit", "c"+at[:12]+at[len(at)-3:], `{"at":"`+at+`"}`)
			if got := h.result(); got != "Error: "+toolserver.ErrAddress.Error() {
				t.Errorf("%.40s: %q", at, got)
			}
		}
		h.mu.Lock()
		h.answer = func(_ int, m received) (*http.Response, error) {
			if m.Type() == agentproto.TypeOAuth {
				return status(http.StatusNotFound), nil
			}
			return status(http.StatusOK), nil
		}
		h.mu.Unlock()
		h.call("visit", "c3", `{"at":"https://shop.example/19"}`)
		if got := h.result(); got != "Error: "+toolserver.ErrNotAsked.Error() {
			t.Errorf("a runtime that does not take it: %q", got)
		}
		h.close()
	})
}
