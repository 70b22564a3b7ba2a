package conform

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// subscribe opens a subscription, waits for the result, and returns the call.
func (c *toolCase) subscribe(name string) *toolCall { return c.subscribeIn(c.thread(), name) }

func (c *toolCase) subscribeIn(thread, name string) *toolCall {
	k := c.call("subscribe", vars{"NAME": name}).set(fields{"group_id": thread}).start()
	m := k.result()
	if m.isError() || m.m["subscription"] != true {
		c.fail(k.what, m, "a result with subscription true")
	}
	return k
}

// publish causes an event, or leaves it to the server if no operation can.
func (c *toolCase) publish(name, text string) {
	if _, ok := c.profile.Roles["publish"]; ok {
		c.call("publish", vars{"NAME": name, "TEXT": text}).start().result()
	}
}

// event causes an event of the subscription and waits for it.
func (k *toolCall) event(name string) *message {
	text := unique("event")
	k.c.publish(name, text)
	return k.next("subscription_event")
}

// S13: a subscription survives the process.
func (c *toolCase) subscriptionSurvives() {
	c.restartable()
	name := unique("topic")
	k := c.subscribe(name)
	k.event(name)
	c.restart(nil)
	k.what = "an event after kill -9 and a new start"
	k.event(name)
}

// S14: a cancelled subscription sends no more events.
func (c *toolCase) subscriptionCancelled() {
	c.lifecycle()
	name := unique("topic")
	k := c.subscribe(name)
	other := c.subscribe(name)
	k.event(name)
	other.next("subscription_event")
	c.accepted("the cancellation of a subscription", k.cancel())
	c.settle(k)
	other.event(name)
	k.what = "an event after the subscription was cancelled"
	k.quiet("no event")
}

// settle skips events that were on their way when a subscription ended.
func (c *toolCase) settle(k *toolCall) {
	for {
		if _, err := k.line.next(c.ctx, soonest); err != nil {
			return
		}
	}
}

// S15: closing a thread ends its subscriptions, and no others.
func (c *toolCase) threadClosed() {
	c.lifecycle()
	name := unique("topic")
	thread := c.thread()
	mine, also := c.subscribeIn(thread, name), c.subscribeIn(thread, name)
	other := c.subscribe(name)
	mine.event(name)
	also.next("subscription_event")
	other.next("subscription_event")
	c.accepted("the closing of a thread", c.post(c.base+closePath, fields{"thread_id": thread}))
	c.settle(mine)
	c.settle(also)
	other.what = "an event for another thread than the one that was closed"
	other.event(name)
	mine.what, also.what = "an event after the thread was closed", "an event after the thread was closed"
	c.quietAll("no event", mine, also)
}

// S16: an event that must be sent again delays those after it.
func (c *toolCase) eventsInOrder() {
	c.role("publish")
	name := unique("topic")
	k := c.subscribe(name)
	fails := answer{status: http.StatusServiceUnavailable}
	ok := answer{status: http.StatusOK}
	k.line.answers(fails, ok, ok, fails, ok)
	var want, got []string
	for i := range 6 {
		text := fmt.Sprintf("event %d of %s", i, name)
		want = append(want, text)
		c.publish(name, text)
	}
	for len(got) < len(want) {
		m := k.within(millis(c.limits.Retry), "subscription_event")
		if m.answer.status != http.StatusOK {
			continue
		}
		got = append(got, m.text("text"))
	}
	same := slices.EqualFunc(got, want, func(g, w string) bool { return strings.Contains(g, w) })
	if !same {
		c.fail("six events, of which some have to be sent again", got, fmt.Sprint(want))
	}
	k.cancel()
}
