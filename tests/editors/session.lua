-- What somebody does in Neovim: opens a wrong spec, sees the error, applies its fix, renames, and formats.
-- Writes what was there after each step as JSON to the file in $RESULT.

local result = {}
local patience = 60000 -- milliseconds

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
end

local function go_to(word)
  vim.fn.cursor(1, 1)
  vim.fn.search(word, "cW")
end

local function codes()
  return vim.tbl_map(function(each)
    return { each.code or each.user_data.lsp.code, each.lnum, each.col, each.message }
  end, vim.diagnostic.get(0))
end

local function session()
  vim.cmd("edit " .. vim.env.SPEC)
  result.filetype = vim.bo.filetype
  result.syntax = vim.b.current_syntax
  vim.wait(patience, function() return #vim.diagnostic.get(0) > 0 end, 20)
  result.errors = codes()

  local params = vim.lsp.util.make_range_params()
  local first = vim.diagnostic.get(0)[1]
  local line = { line = first.lnum, character = first.col }
  params.range = { start = line, ["end"] = line }
  params.context = { diagnostics = {}, only = { "quickfix" } }
  local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, patience)
  for _, answer in pairs(answers) do
    result.actions = vim.tbl_map(function(each) return each.title end, answer.result)
    vim.lsp.util.apply_workspace_edit(answer.result[1].edit, "utf-16")
  end
  vim.wait(patience, function() return #vim.diagnostic.get(0) == 0 end, 20)
  result.errors_after_fix = codes()
  result.fixed = text()

  go_to("hidden")
  vim.lsp.buf.rename("inner")
  vim.wait(patience, function() return text():find("inner") ~= nil end, 20)
  result.renamed = text()

  if vim.lsp.buf.format then
    vim.lsp.buf.format({ timeout_ms = patience })
  else
    vim.lsp.buf.formatting_sync(nil, patience)
  end
  result.formatted = text()

  go_to("Dense")
  local hover = vim.lsp.buf_request_sync(0, "textDocument/hover", vim.lsp.util.make_position_params(), patience)
  for _, answer in pairs(hover) do
    result.hover = answer.result.contents.value
  end

  -- The colour of the word at each place, as the syntax file gives it.
  result.colors = {}
  for _, word in ipairs({ "model", "mode =", "sync", "Dense", "input", "synthetic", "#" }) do
    go_to("\\V" .. word)
    local place = vim.fn.getcurpos()
    local id = vim.fn.synID(place[2], place[3], 1)
    result.colors[word] = vim.fn.synIDattr(id, "name")
  end
end

local fine, fault = xpcall(session, debug.traceback)
result.fault = not fine and fault or nil
local file = io.open(vim.env.RESULT, "w")
file:write(vim.fn.json_encode(result))
file:close()
vim.cmd("qall!")
