package page

import (
	"cmp"
	"fmt"
	"slices"

	"retake/internal/fsm"
)

// Sizes in the state machine drawing.
const (
	boxWidth, boxHeight = 100, 46
	columnWidth         = 130
	drawingWidth        = 8*columnWidth - columnWidth + boxWidth + 2*drawingMargin
	drawingMargin       = 6
	drawingHeight       = 386
	laneMargin          = 16 // distance between a box and the nearest lane
)

// rowTops are the upper edges of the rows of boxes. The space between rows is for arrows.
var rowTops = [...]int{28, 204, 326}

func (p place) x() int { return drawingMargin + p.column*columnWidth }
func (p place) y() int { return rowTops[p.row] }

// lane is a horizontal line in the gap between two rows. In each gap, all arrows to the same state share one lane. Gap
// n is above row n.
type lane struct {
	gap int
	to  fsm.State
}

// port is the point where an arrow leaves or meets a box. Arrows to the same state share one port on each side of a
// box.
type port struct {
	box    fsm.State
	bottom bool
	to     fsm.State // the arrow's target
}

// run is the route of one arrow before it has coordinates.
type run struct {
	from, to      place
	straight      bool // the target is the next box in the same row
	first, last   lane // equal, unless a row is between them
	leaves, meets port
}

func wayOf(from, to place) run {
	w := run{from: from, to: to, straight: from.row == to.row && to.column == from.column+1}
	down, up := to.row > from.row, to.row < from.row
	if from.row == to.row {
		down, up = from.row > 0, from.row == 0 // the arrow goes around the boxes between its ends
	}
	w.leaves = port{from.state, down, to.state}
	w.first, w.last = lane{from.row, to.state}, lane{to.row, to.state}
	if down {
		w.first.gap++
	}
	meetsBottom := up
	if from.row == to.row {
		meetsBottom = down
	}
	if meetsBottom {
		w.last.gap++
	}
	w.meets = port{to.state, meetsBottom, to.state}
	return w
}

// routed returns the path of each arrow. Paths never cross boxes. An arrow to the next box in the same row is straight.
// Any other arrow leaves its box for a gap between the rows, follows the lane of its target, and enters the target from
// there.
func routed(arrows [][2]fsm.State) (paths []string) {
	var ways []run
	var lanes []lane
	var ports []port
	add := func(w run) {
		for _, l := range []lane{w.first, w.last} {
			if !slices.Contains(lanes, l) {
				lanes = append(lanes, l)
			}
		}
		for _, p := range []port{w.leaves, w.meets} {
			if !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
	}
	for _, a := range arrows {
		w := wayOf(placeOf(a[0]), placeOf(a[1]))
		if !w.straight {
			add(w)
		}
		ways = append(ways, w)
	}
	y, x := heights(lanes), sides(ports)
	for _, w := range ways {
		if w.straight {
			middle := w.from.y() + boxHeight/2
			paths = append(paths, fmt.Sprintf("M%d %dH%d", w.from.x()+boxWidth, middle, w.to.x()-2))
			continue
		}
		begin, end := w.from.y(), w.to.y()-2
		if w.leaves.bottom {
			begin += boxHeight
		}
		if w.meets.bottom {
			end += boxHeight + 4
		}
		path := fmt.Sprintf("M%d %dV%dH", x[w.leaves], begin, y[w.first])
		if w.first != w.last { // the arrow passes the middle row between two columns
			path += fmt.Sprintf("%dV%dH", w.to.x()-(columnWidth-boxWidth)/2, y[w.last])
		}
		paths = append(paths, path+fmt.Sprintf("%dV%d", x[w.meets], end))
	}
	return paths
}

// heights spreads the lanes of each gap vertically. Upward lanes are above downward lanes.
func heights(lanes []lane) map[lane]int {
	y := map[lane]int{}
	for gap := range rowTops {
		var here []lane
		for _, l := range lanes {
			if l.gap == gap {
				here = append(here, l)
			}
		}
		slices.SortStableFunc(here, func(a, b lane) int {
			p, q := placeOf(a.to), placeOf(b.to)
			if p.row != q.row {
				return cmp.Compare(p.row, q.row)
			}
			return cmp.Compare(p.column, q.column)
		})
		top, bottom := 4, rowTops[gap]-laneMargin
		if gap > 0 {
			top = rowTops[gap-1] + boxHeight + laneMargin
		}
		for i, l := range here {
			y[l] = top + (2*i+1)*(bottom-top)/(2*len(here))
		}
	}
	return y
}

// sides spreads the ports along each side of a box, ordered by the columns of their targets.
func sides(ports []port) map[port]int {
	x := map[port]int{}
	for _, at := range places {
		for _, bottom := range []bool{false, true} {
			var here []port
			for _, p := range ports {
				if p.box == at.state && p.bottom == bottom {
					here = append(here, p)
				}
			}
			slices.SortStableFunc(here,
				func(a, b port) int { return cmp.Compare(placeOf(a.to).column, placeOf(b.to).column) })
			aside := -4 // separates downward arrows of one row from upward arrows of the next row
			if bottom {
				aside = 4
			}
			for i, p := range here {
				x[p] = at.x() + (i+1)*boxWidth/(len(here)+1) + aside
			}
		}
	}
	return x
}
