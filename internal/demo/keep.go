package demo

import (
	"context"
	"fmt"
)

// stay starts the director once more and leaves it and the pages to whoever looks, until ctx ends.
func (p *play) stay(ctx context.Context) error {
	if err := p.child.start(); err != nil {
		return err
	}
	defer p.child.stop()
	director, config, data := p.child.argv[0], p.site.config(), p.site.data()
	fmt.Fprintf(p.out, `
the director goes on until Ctrl-C; then everything is removed
  issues       %s/%s
               (give one of them the label %s: the agent knows the ten issues only, and fails at any other)
  its data     %s
  its state    %s status -c %s
  what failed  %s report --dir %s
  what it used %s budget show --dir %s
`, p.site.url, repository, labelTask, data, director, config, director, data, director, data)
	for {
		select {
		case l := <-p.child.lines:
			p.told(l)
		case <-p.child.ended:
			return fmt.Errorf("%w: %s", errDirector, p.log.last())
		case <-ctx.Done():
			return nil
		}
	}
}
