package durable

import (
	"context"
	"sync"
)

// A hold keeps snapshots from being saved while what is kept is read at one moment. Waiting in it
// ends with a context. The zero value holds nothing.
type hold struct {
	mu     sync.Mutex
	holder chan struct{} // closed when it ends; nil if there is none
	inside int           // saves that go on
	left   chan struct{} // closed when they are over; nil unless a holder waits
}

// enter waits until there is no holder. After nil there has to be a leave.
func (h *hold) enter(ctx context.Context) error {
	for {
		h.mu.Lock()
		holder := h.holder
		if holder == nil {
			h.inside++
			h.mu.Unlock()
			return nil
		}
		h.mu.Unlock()
		select {
		case <-holder:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *hold) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inside--; h.inside == 0 && h.left != nil {
		close(h.left)
		h.left = nil
	}
}

// begin waits until there is no other holder and nobody is inside. After nil there has to be an end.
func (h *hold) begin(ctx context.Context) error {
	for {
		h.mu.Lock()
		other := h.holder
		if other == nil {
			break
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	h.holder = make(chan struct{})
	var left chan struct{}
	if h.inside > 0 {
		left = make(chan struct{})
		h.left = left
	}
	h.mu.Unlock()
	if left == nil {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		h.end()
		return context.Cause(ctx)
	}
}

func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.holder)
	h.holder, h.left = nil, nil
}
