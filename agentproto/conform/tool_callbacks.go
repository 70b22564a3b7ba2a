package conform

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// soonest is the shortest pause before a second attempt that counts as backoff.
const soonest = 200 * time.Millisecond

// again waits until a message that was not accepted is sent again, and fails if the message
// differs.
func (k *toolCall) again(m *message) *message {
	next := k.within(millis(k.c.limits.Retry), m.kind)
	if next.raw != m.raw {
		k.c.fail(k.what, next, "the same message again: "+m.raw)
	}
	if a, b := m.header.Get("webhook-id"), next.header.Get("webhook-id"); a != b {
		k.c.fail(k.what, fmt.Sprintf("webhook-id %q, then %q", a, b), "one webhook-id for all attempts")
	}
	return next
}

// C01: a runtime that fails gets the message again.
func (c *toolCase) callbackFailsOnce() {
	k := c.some("once more", answer{status: 500}, answer{status: 502}).start()
	k.what = "a callback answered 500, 502, 200"
	one := k.worked()
	two := k.again(one)
	three := k.again(two)
	if d := two.at.Sub(one.at); d < soonest {
		c.fail(k.what, "the second attempt came after "+d.String(), "backoff")
	}
	if three.at.Sub(two.at) < two.at.Sub(one.at)/2 {
		c.fail(k.what, fmt.Sprintf("attempts after %v and %v", two.at.Sub(one.at), three.at.Sub(two.at)), "pauses that grow")
	}
	k.quiet("nothing after the message was accepted")
}

// C02: 404 is final.
func (c *toolCase) callbackUnknown() {
	var calls []*toolCall
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest, http.StatusForbidden} {
		k := c.some("nobody", answer{status: status}, answer{status: status}).start()
		k.what = fmt.Sprintf("a callback answered %d", status)
		k.worked()
		calls = append(calls, k)
	}
	c.quietAll("no second attempt", calls...)
}

// C03: an undelivered message survives the process.
func (c *toolCase) callbackRefused() {
	c.restartable()
	h := c.hubs[1]
	k := c.some("patience").to(c.lineOf(1))
	h.shut()
	defer func() {
		if h.closed() {
			c.must(h.open(), "open the callback endpoint again")
		}
	}()
	k.start(c.as())
	// A refused connection cannot be seen from here. A second call, whose callback
	// works, ends after the first has been tried.
	c.alive()
	c.restart(nil)
	c.alive()
	c.must(h.open(), "open the callback endpoint again")
	k.what = "a callback refused, kill -9, a new start, the callback back"
	m := k.within(millis(c.limits.Retry)+millis(c.limits.Result), "tool_result")
	if !strings.Contains(m.words(), "patience") {
		c.fail(k.what, m, "the result of the call")
	}
	k.quiet("the result once")
}

// C04: the server waits as long as the runtime asks for.
func (c *toolCase) retryAfter() {
	k := c.some("later", answer{status: 503, header: map[string]string{"Retry-After": "2"}}).start()
	k.what = "a callback answered 503 with Retry-After: 2"
	one := k.worked()
	two := k.within(2*time.Second+millis(c.limits.Retry), "tool_result")
	// The server counts from when it got the answer; clocks of a second are rounded.
	if d := two.at.Sub(one.at); d < 1950*time.Millisecond {
		c.fail(k.what, "the next attempt came after "+d.String(), "two seconds at least")
	}
}

// C05: an unanswered message may have arrived, so its repetition has the same id.
func (c *toolCase) callbackHangs() {
	if c.limits.Callback == 0 {
		c.lacks("the profile does not say how long the server waits for a callback's answer (limits.callback_ms)")
	}
	k := c.some("ambiguous", answer{hold: true}).start()
	k.what = "a callback that is not answered"
	one := k.worked()
	two := k.within(millis(c.limits.Callback)+millis(c.limits.Retry), "tool_result")
	id := one.header.Get("webhook-id")
	if id == "" || id != two.header.Get("webhook-id") || one.raw != two.raw {
		c.fail(k.what, fmt.Sprintf("webhook-id %q, then %q", id, two.header.Get("webhook-id")), "one webhook-id for both attempts")
	}
	k.quiet("nothing after the message was accepted")
}

// C06: 410 says that no further messages are wanted.
func (c *toolCase) callbackGone() {
	k := c.some("gone", answer{status: http.StatusGone}, answer{status: http.StatusGone}).start()
	k.what = "a callback answered 410"
	k.worked()
	k.quiet("no second attempt")
	k.start()
	k.quiet("nothing for a key that is closed")
	if _, ok := c.profile.Roles["subscribe"]; !ok {
		return
	}
	name := unique("gone")
	s := c.subscribe(name)
	s.line.answers(answer{status: http.StatusGone})
	s.event(name)
	c.publish(name, "to nobody")
	s.what = "an event answered 410"
	s.quiet("no event of a subscription that has ended")
}

// C07: a redirect is not followed, since it could lead anywhere.
func (c *toolCase) callbackRedirects() {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusFound, http.StatusPermanentRedirect} {
		elsewhere := c.lineOf(1)
		k := c.some("here", answer{status: status, header: map[string]string{"Location": elsewhere.url}}).start()
		k.worked()
		c.alive()
		if _, err := elsewhere.next(c.ctx, soonest); err == nil {
			c.fail(fmt.Sprintf("a callback answered %d", status), "a request to where it led", "no request there")
		}
	}
}
