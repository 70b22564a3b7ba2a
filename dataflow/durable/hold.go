package durable

import (
	"context"
	"sync"
)

// A hold keeps snapshots from being saved while the history is read as of one moment. All waits end with their
// context. The zero value holds nothing.
type hold struct {
	mu     sync.Mutex
	holder chan struct{} // closed when the hold ends; nil if nobody holds
	inside int           // saves that are under way
	left   chan struct{} // closed when they are over; nil unless somebody waits to hold
}

// enter waits until nobody holds. If it returns nil, the caller must call leave.
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

// begin waits until nobody else holds and no save is under way. If it returns nil, the caller must call end.
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
