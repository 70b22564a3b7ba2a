package host

import (
	"context"

	"github.com/millrace/millrace/agentproto"
)

// A Surface is where the user is: what a call needs of the user is shown there,
// and the answers come back through [Runtime.Answer].
//
// The methods are called one at a time, for one call in the order in which things
// happened to it. A method that does not return holds up the surface and nothing
// else. All texts and URLs are the tool server's: a surface escapes what its
// medium could misread, and never opens a URL by itself.
type Surface interface {
	// OAuth asks the user to visit the AuthURL. The call goes on when the tool
	// says so; there is nothing to answer. The URL is not to be kept after it was
	// shown, nor to be logged.
	OAuth(ctx context.Context, key agentproto.CallKey, o *agentproto.OAuth)
	// Choice asks the user to choose.
	Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice)
	// Withdraw takes back what was asked for, if it is shown still: the detour is
	// the AuthURL or the ResponseURL. It may come after the user's answer.
	Withdraw(key agentproto.CallKey, detour string)
	// Progress tells that a call is in another state. A conversation tells the model
	// of an authorization in progress from here.
	Progress(key agentproto.CallKey, state agentproto.State)
	// View shows the content of a view, in place of what it showed before. An
	// empty object clears it.
	View(key agentproto.CallKey, v *agentproto.ViewUpdate)
}

// An Answerer takes the answers of the user. [Runtime] is one.
type Answerer interface {
	// Answer is documented at [Runtime.Answer].
	Answer(ctx context.Context, key agentproto.CallKey, responseURL string, selected int) error
}

// A Binder is a [Surface] that wants to know where its answers go. Bind is called
// once, before anything else.
type Binder interface{ Bind(Answerer) }

// Dismiss stands for a prompt that the user closed without choosing: the prompt's
// default is selected.
const Dismiss = -1

// maxViews is how many messages may wait for the surface before a view_update is
// put off.
const maxViews = 1024

// show has the surface do something after everything it was asked to do before.
func (rt *Runtime) show(do func(ctx context.Context, s Surface)) { rt.shown.push(do) }

// showAll is the goroutine that calls the surface.
func (rt *Runtime) showAll() {
	for {
		do, err := rt.shown.next(rt.ctx)
		if err != nil {
			return
		}
		do(rt.ctx, rt.surface)
	}
}
