// Package display shows users what calls need from them. A [Display] calls the surface, and knows the open prompts and the latest
// views.
package display

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/queue"
)

// A Surface connects to the user: see host.Surface.
type Surface interface {
	OAuth(ctx context.Context, key agentproto.CallKey, o *agentproto.OAuth)
	Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice)
	Withdraw(key agentproto.CallKey, detour string)
	Progress(key agentproto.CallKey, state agentproto.State)
	View(key agentproto.CallKey, v *agentproto.ViewUpdate)
}

// A Display makes one surface show what calls need from the user, one thing at a time, and remembers what it shows.
type Display struct {
	surface Surface
	sealer  capability.Sealer // of auth_urls
	log     *slog.Logger
	program *agentproto.Program // set by Attach
	shown   *queue.Queue[func(context.Context, Surface)]
	views   *views
	prompts prompts
	changed func(thread string)
}

// New returns a display that shows nothing before Run.
func New(surface Surface, sealer capability.Sealer, b Bounds, log *slog.Logger) *Display {
	return &Display{surface: surface, sealer: sealer, log: log, shown: queue.New[func(context.Context, Surface)](), views: newViews(b), changed: func(string) {}}
}

// Attach sets the program that knows the calls. It must be called before everything else.
func (d *Display) Attach(p *agentproto.Program) { d.program = p }

// OnChange sets the function that is called when the prompts of a thread have changed. It must be called before everything else;
// the function must return quickly.
func (d *Display) OnChange(do func(thread string)) { d.changed = do }

// Run calls the surface until Stop is called and everything shown before was handled, or until ctx ends.
func (d *Display) Run(ctx context.Context) {
	for {
		do, err := d.shown.Next(ctx)
		if err != nil {
			return
		}
		do(ctx, d.surface)
	}
}

// Stop ends Run.
func (d *Display) Stop() { d.shown.Close() }

// Show queues a call of the surface after all earlier ones.
func (d *Display) Show(do func(ctx context.Context, s Surface)) { d.shown.Push(do) }

// Progress reports a change of a call's state.
func (d *Display) Progress(key agentproto.CallKey, state agentproto.State) {
	d.Show(func(_ context.Context, s Surface) { s.Progress(key, state) })
}

// Prompt shows a prompt and returns when it is over, or an error if this process cannot find out.
func (d *Display) Prompt(ctx context.Context, p *agentproto.Prompt) error {
	d.Ask(p, false)
	_, err := d.program.Over(ctx, p)
	return err
}

// MaxWaiting is how many messages may wait for the surface before a view_update is refused for now.
const MaxWaiting = 1024

// View shows a view in place of the one of its type. The error is [ErrLater] if too many messages wait for the surface; any other
// says, in words for the sender, which bound the view exceeds.
func (d *Display) View(key agentproto.CallKey, v *agentproto.ViewUpdate) error {
	show := func(_ context.Context, s Surface) { s.View(key, v) }
	return d.views.put(v, func() bool { return d.shown.TryPush(show, MaxWaiting) })
}

// ViewsOf returns the latest views of a thread, one for each type, in the order of the types.
func (d *Display) ViewsOf(thread string) []*agentproto.ViewUpdate { return d.views.of(thread) }

// Forget drops the views of a thread.
func (d *Display) Forget(thread string) { d.views.forget(thread) }
