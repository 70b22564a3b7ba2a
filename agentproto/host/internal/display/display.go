// Package display shows users what calls need of them. A [Display] calls the surface, and knows which prompts are open
// and which views were shown last.
package display

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/queue"
)

// A Surface is where the user is: see host.Surface.
type Surface interface {
	OAuth(ctx context.Context, key agentproto.CallKey, o *agentproto.OAuth)
	Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice)
	Withdraw(key agentproto.CallKey, detour string)
	Progress(key agentproto.CallKey, state agentproto.State)
	View(key agentproto.CallKey, v *agentproto.ViewUpdate)
}

// A Display has one surface show what calls need of the user, one thing at a time, and remembers what it
// shows.
type Display struct {
	surface Surface
	sealer  capability.Sealer // of auth_urls
	log     *slog.Logger
	program *agentproto.Program // set by attach
	shown   *queue.Queue[func(context.Context, Surface)]
	views   *views
	prompts prompts
	changed func(thread string)
}

// New returns a display that shows nothing before run.
func New(surface Surface, sealer capability.Sealer, b Bounds, log *slog.Logger) *Display {
	return &Display{surface: surface, sealer: sealer, log: log, shown: queue.New[func(context.Context, Surface)](), views: newViews(b), changed: func(string) {}}
}

// Attach says which program knows the calls. It comes before everything else.
func (d *Display) Attach(p *agentproto.Program) { d.program = p }

// OnChange says what is called when what is asked in a thread has changed. It comes before everything
// else; what it calls returns soon.
func (d *Display) OnChange(do func(thread string)) { d.changed = do }

// Run calls the surface until stop, after which it shows what it was given before, or until ctx ends.
func (d *Display) Run(ctx context.Context) {
	for {
		do, err := d.shown.Next(ctx)
		if err != nil {
			return
		}
		do(ctx, d.surface)
	}
}

// Stop has run end.
func (d *Display) Stop() { d.shown.Close() }

// Show has the surface do something after everything it was asked to do before.
func (d *Display) Show(do func(ctx context.Context, s Surface)) { d.shown.Push(do) }

// Progress tells that a call is in another state.
func (d *Display) Progress(key agentproto.CallKey, state agentproto.State) {
	d.Show(func(_ context.Context, s Surface) { s.Progress(key, state) })
}

// Prompt shows a prompt and returns when it is over, or an error if that cannot be found out here.
func (d *Display) Prompt(ctx context.Context, p *agentproto.Prompt) error {
	d.Ask(p, false)
	_, err := d.program.Over(ctx, p)
	return err
}

// MaxWaiting is how many messages may wait for the surface before a view_update is
// put off.
const MaxWaiting = 1024

// View shows a view in place of the one of its type. The error is errLater if the surface has too much to
// show; any other says, in words for its sender, which bound the view exceeds.
func (d *Display) View(key agentproto.CallKey, v *agentproto.ViewUpdate) error {
	show := func(_ context.Context, s Surface) { s.View(key, v) }
	return d.views.put(v, func() bool { return d.shown.TryPush(show, MaxWaiting) })
}

// ViewsOf returns the latest views of a thread by their types.
func (d *Display) ViewsOf(thread string) []*agentproto.ViewUpdate { return d.views.of(thread) }

// Forget drops the views of a thread.
func (d *Display) Forget(thread string) { d.views.forget(thread) }
