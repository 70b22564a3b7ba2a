package durable

import (
	"cmp"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/engine/identity"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// mostImages is how many images a [History] caches of a partition, imageBytes bounds the size of all of them
// together, and leastApart is the least number of steps between two of them.
const (
	mostImages       = 8
	imageBytes       = 64 << 20
	minImageInterval = 512
)

// images are cached states of partitions after some steps. A replay begins at the nearest image before its
// step.
type images struct {
	of    map[int][]*image // by partition, in the order of their steps
	bytes int
}

// An image is a snapshot held in memory.
type image struct {
	last   snapshot // of the step, except for its runs
	made   *identity.Shape
	pieces []logdriven.Piece
	bytes  int
}

// before returns the latest image of a partition that is not after a step, or nil.
func (x *images) before(partition int, step uint64) *image {
	for _, im := range slices.Backward(x.of[partition]) {
		if im.last.fence <= step {
			return im
		}
	}
	return nil
}

// add caches an image, and evicts others if there are too many. Within a partition it evicts those with the
// nearest neighbors, so that the rest are spaced about evenly.
func (x *images) add(partition int, im *image) {
	all := x.of[partition]
	at, there := slices.BinarySearchFunc(all, im.last.fence, func(a *image, fence uint64) int { return cmp.Compare(a.last.fence, fence) })
	if there || im.bytes > imageBytes {
		return
	}
	if x.of == nil {
		x.of = make(map[int][]*image)
	}
	x.of[partition] = slices.Insert(all, at, im)
	x.bytes += im.bytes
	for len(x.of[partition]) > mostImages {
		x.thin(partition, im)
	}
	for x.bytes > imageBytes {
		largest, size := partition, 0
		for p, all := range x.of {
			bytes := 0
			for _, other := range all {
				if other != im {
					bytes += other.bytes
				}
			}
			if bytes > size || bytes == size && p < largest {
				largest, size = p, bytes
			}
		}
		x.thin(largest, im)
	}
}

// thin evicts the image of a partition whose removal leaves the smallest gap, but never the image but.
func (x *images) thin(partition int, but *image) {
	all := x.of[partition]
	least, gap := -1, uint64(math.MaxUint64)
	for i, im := range all {
		from, to := uint64(0), im.last.fence
		if i > 0 {
			from = all[i-1].last.fence
		}
		if i+1 < len(all) {
			to = all[i+1].last.fence
		}
		if im != but && to-from < gap {
			least, gap = i, to-from
		}
	}
	if least >= 0 {
		x.bytes -= all[least].bytes
		x.of[partition] = slices.Delete(all, least, least+1)
	}
}

// forget evicts all images of a partition.
func (x *images) forget(partition int) {
	for _, im := range x.of[partition] {
		x.bytes -= im.bytes
	}
	delete(x.of, partition)
}

// image returns what an owner remembers between two steps. It returns nil while the state is still in another
// program's encoding, and if it is too large for an image.
func (o *owner) image(fence uint64) (*image, error) {
	if o.program.converts || o.cutter.Live() > imageBytes {
		return nil, nil
	}
	o.cutter.Again()
	if err := o.cutter.Begin(0); err != nil {
		return nil, err
	}
	if _, err := o.cutter.Write(func() bool { return false }); err != nil {
		return nil, err
	}
	im := &image{last: o.last, made: o.program.made, pieces: o.cutter.Pieces()}
	im.last.fence = fence
	im.last.latest = slices.Clip(slices.Clone(im.last.latest)) // the owner that continues from the image appends to it
	for _, p := range im.pieces {
		im.bytes += len(p.Data)
	}
	return im, nil
}

// loadImage gives a flow that has made no step the state of an image.
func (o *owner) loadImage(im *image) error {
	loader, err := o.executor.Loader(im.last.clock, false)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(im.pieces) {
		if err := loader.Piece(p.Run, p.Data); err != nil {
			return err
		}
	}
	if err := loader.End(); err != nil {
		return err
	}
	o.last = im.last
	return nil
}
